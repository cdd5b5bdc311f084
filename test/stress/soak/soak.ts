// Mixed open-loop traffic from many keys for minutes, over sockets to the Workers runtime with real D1 and Durable Objects. The
// floor of the bench, a constant text in a process of its own, gets requests at the same time, so that latencies can be compared
// with those of this machine in the same seconds. At the end all counts must reconcile: the admissions and refusals of each
// key, its limits, its usage, and the pets in the list.
//
// One isolate serves all requests and nothing crashes, so no lease is lost and every count must be exact.

import { setTimeout as wait } from "node:timers/promises";
import { addTablesAndPets } from "../../../bench/cases/pets.ts";
import { PETSTORE } from "../../../bench/measure/implementations.ts";
import { percentile } from "../../../bench/measure/statistics.ts";
import { startWorkers } from "../../../bench/measure/workerd.ts";
import { createKey } from "../../../src/keys/admin.ts";
import { MAX_LIMIT } from "../../../src/rate-limit/plans.ts";
import type { UsageBody } from "../../../src/rate-limit/usage/usage-body.ts";
import { type Exchange, findViolations } from "../../support/openapi-validator.ts";
import { AnonymousClients } from "./anonymous-clients.ts";
import { type Answer, Connections, type Outgoing } from "./connections.ts";
import { KeyClient } from "./key-client.ts";
import { judge, type MemoryVerdict, residentMb } from "./memory.ts";
import { Pets } from "./pets.ts";
import { Problems } from "./problems.ts";
import { limitsOf, profileOf } from "./profiles.ts";
import { KINDS } from "./requests.ts";

const OTHER_PETS = 10_000;

const FLOOR_PER_SECOND = 100;
const ANONYMOUS_PER_SECOND = 16;
const PREFLIGHTS_PER_SECOND = 2;
const USAGES_PER_SECOND_AND_KEY = 0.1;

/** Above this, sends are skipped, so that a slow machine does not fail by its number of connections. */
const MAX_UNDERWAY = 200;

/** One in this many responses is validated against the OpenAPI document. */
const SAMPLE = 50;

const MEMORY_EVERY_MS = 10_000;

/** Longer than leases, and than usage is cached. */
const QUIET_MS = 2_500;

/** The kinds whose latencies are reported. A refusal is any 429. */
export const TIMED = [...KINDS, "refusal", "all", "floor"] as const;

export type Timed = (typeof TIMED)[number];

export interface Latency {
  kind: Timed;
  requests: number;
  p50Ms: number;
  p99Ms: number;
  /** Relative to the floor. */
  p50Ratio: number;
  p99Ratio: number;
}

export interface SoakReport {
  seconds: number;
  keys: number;
  requests: number;
  requestsPerSecond: number;
  admitted: number;
  refused: number;
  /** Refusals by a ban, which usage does not show. */
  banned: number;
  usedUpWindows: number;
  admittedAfterWait: number;
  anonymous: { admitted: number; refused: number };
  pets: number;
  validated: number;
  /** Sends that were skipped, because too many requests were under way. */
  skipped: number;
  /** The delay of sends, because this process was busy. */
  lateP99Ms: number;
  latencies: Latency[];
  memoryMb: number[];
  /** Undefined if the run was too short for it. */
  memory: MemoryVerdict | undefined;
  problems: string[];
}

export interface SoakOptions {
  seconds: number;
  keys: number;
  /** Called with the progress. */
  onProgress?(line: string): void;
}

/** Runs the traffic and the checks. */
export async function soak(options: SoakOptions): Promise<SoakReport> {
  const service = await startWorkers([PETSTORE]);
  try {
    const floor = await startWorkers([{ file: "bench/baselines/floor.ts" }]);
    try {
      const [{ url, database } = missing(), { url: floorUrl } = missing()] = [
        service.workers[0],
        floor.workers[0],
      ];
      const run = new Soak(options, url, floorUrl, service.processId());
      return await run.run(await database());
    } finally {
      await floor.stop();
    }
  } finally {
    await service.stop();
  }
}

function missing(): never {
  throw new Error("no Worker is running");
}

class Soak {
  readonly #options: SoakOptions;
  readonly #service: Connections;
  readonly #floor: Connections;
  readonly #processId: number;
  readonly #problems = new Problems();
  readonly #pets = new Pets(this.#problems);
  readonly #times = new Map<Timed, number[]>(TIMED.map((kind) => [kind, []]));
  readonly #lateMs: number[] = [];
  readonly #sample: Exchange[] = [];
  readonly #memoryMb: number[] = [];
  readonly #underway = new Set<Promise<void>>();
  #requests = 0;
  #skipped = 0;

  constructor(options: SoakOptions, url: URL, floorUrl: URL, processId: number) {
    this.#options = options;
    this.#service = new Connections(url);
    this.#floor = new Connections(floorUrl);
    this.#processId = processId;
  }

  async run(database: D1Database): Promise<SoakReport> {
    const { seconds } = this.#options;
    await addTablesAndPets(database, OTHER_PETS);
    const clients = await this.#newClients(database);
    const inspector = await newSecretKey(database);
    const anonymous = new AnonymousClients(this.#problems);

    const startMs = performance.now();
    const endMs = startMs + seconds * 1000;
    const pace = (perSecond: number, act: () => void, phase: number) =>
      this.#pace(1000 / perSecond, act, startMs + (phase % 1) * (1000 / perSecond), endMs);
    await Promise.all([
      ...clients.map((client, index) =>
        pace(client.burstsPerSecond, () => this.#sendBurst(client), index * 0.618),
      ),
      ...clients.map((client, index) =>
        pace(
          USAGES_PER_SECOND_AND_KEY,
          () => this.#send(client.usage(), expectStatus(200, this.#problems)),
          index * 0.382,
        ),
      ),
      pace(ANONYMOUS_PER_SECOND, () => this.#sendAnonymous(anonymous), 0.25),
      pace(PREFLIGHTS_PER_SECOND, () => this.#send(PREFLIGHT, expectStatus(204, this.#problems)), 0.75),
      pace(FLOOR_PER_SECOND, () => this.#sendToFloor(), 0.5),
      this.#watchMemory(endMs),
    ]);
    await Promise.all(this.#underway);
    const passedSeconds = (performance.now() - startMs) / 1000;

    await wait(QUIET_MS);
    for (const client of clients) await this.#checkUsage(client);
    for (const client of clients) client.check(this.#problems);
    anonymous.check();
    this.#pets.check(await this.#allPages(inspector), OTHER_PETS);
    for (const exchange of this.#sample) await this.#validate(exchange);
    this.#service.close();
    this.#floor.close();
    return this.#report(clients, anonymous, passedSeconds);
  }

  async #newClients(database: D1Database): Promise<KeyClient[]> {
    const clients: KeyClient[] = [];
    for (let number = 0; number < this.#options.keys; number += 1) {
      const profile = profileOf(number);
      const limits = limitsOf(profile);
      const ownLimits = profile.ownLimits && { limits };
      const newOne = { name: `soak ${number}`, plan: profile.plan, expiresAtMs: null, ...ownLimits };
      const { secret } = await createKey(database, newOne, { by: "test", nowMs: Date.now() });
      const { seconds } = this.#options;
      clients.push(
        new KeyClient({
          number,
          profile,
          limits,
          secret,
          seconds,
          pets: this.#pets,
          problems: this.#problems,
        }),
      );
    }
    return clients;
  }

  /** Calls `act` at a fixed rate. Late calls catch up. */
  async #pace(everyMs: number, act: () => void, firstMs: number, endMs: number): Promise<void> {
    for (let atMs = firstMs; atMs < endMs; atMs += everyMs) {
      await wait(Math.max(0, atMs - performance.now()));
      this.#lateMs.push(performance.now() - atMs);
      if (this.#underway.size < MAX_UNDERWAY) act();
      else this.#skipped += 1;
    }
  }

  #sendBurst(client: KeyClient): void {
    for (const planned of client.burst()) this.#send(planned, planned.onAnswer, planned.kind);
  }

  #sendAnonymous(anonymous: AnonymousClients): void {
    const { planned, record } = anonymous.next();
    this.#send(planned, record, "invalid");
  }

  #sendToFloor(): void {
    const answered = async () => {
      const { status, tookMs } = await this.#floor.send({ method: "GET", path: "/", headers: {} });
      this.#problems.expect(status === 200, "the floor failed", `${status}`);
      this.#times.get("floor")?.push(tookMs);
    };
    this.#track(answered(), "the floor");
  }

  #send(planned: Outgoing, onAnswer: (answer: Answer) => void, kind?: Timed): void {
    this.#requests += 1;
    const isSampled = this.#requests % SAMPLE === 0;
    const answered = async () => {
      const answer = await this.#service.send(planned);
      const { method, path } = planned;
      const { status, headers, body, tookMs } = answer;
      this.#problems.expect(status < 500, "a response was 5xx", `${method} ${path}: ${status} ${body}`);
      if (isSampled && method !== "OPTIONS") this.#sample.push({ method, path, status, headers, body });
      this.#times.get("all")?.push(tookMs);
      if (kind !== undefined) this.#times.get(status === 429 ? "refusal" : kind)?.push(tookMs);
      onAnswer(answer);
    };
    this.#track(answered(), `${planned.method} ${planned.path}`);
  }

  #track(answered: Promise<void>, what: string): void {
    const done: Promise<void> = answered
      .catch((error: Error) => this.#problems.add("a request got no response", `${what}: ${error.message}`))
      .finally(() => this.#underway.delete(done));
    this.#underway.add(done);
  }

  async #watchMemory(endMs: number): Promise<void> {
    const { seconds, onProgress } = this.#options;
    for (let sample = 1; performance.now() < endMs; sample += 1) {
      const megabytes = await residentMb(this.#processId);
      this.#memoryMb.push(megabytes);
      const leftSeconds = Math.max(0, Math.round((endMs - performance.now()) / 1000));
      onProgress?.(
        `${leftSeconds} of ${seconds} s left, ${this.#requests} requests, ${megabytes.toFixed(0)} MB`,
      );
      const nextMs = endMs - seconds * 1000 + sample * MEMORY_EVERY_MS;
      await wait(Math.max(0, Math.min(nextMs, endMs) - performance.now()));
    }
  }

  /** Compares the key's usage with the records of its client. */
  async #checkUsage(client: KeyClient): Promise<void> {
    const { body } = await this.#service.send(client.usage());
    const { days } = JSON.parse(body) as UsageBody;
    for (const seen of client.records.days()) {
      const shown = days.find(({ date }) => date === seen.date) ?? { admitted: 0, refused: 0 };
      const detail = `${client.name}: ${JSON.stringify(shown)}, expected ${JSON.stringify(seen)}`;
      this.#problems.expect(
        shown.admitted === seen.admitted,
        "usage shows a wrong number of admissions",
        detail,
      );
      const [least, most] = seen.refused;
      const isRefused = shown.refused >= least && shown.refused <= most;
      this.#problems.expect(isRefused, "usage shows a wrong number of refusals", detail);
    }
  }

  async #allPages(secret: string): Promise<string[]> {
    const pages: string[] = [];
    for (let path: string | undefined = "/v1/pets?limit=100"; path !== undefined; ) {
      const headers = { Authorization: `Bearer ${secret}` };
      const answer: Answer = await this.#service.send({ method: "GET", path, headers });
      if (answer.status !== 200) throw new Error(`the list got ${answer.status}: ${answer.body}`);
      pages.push(answer.body);
      path = answer.headers.link?.match(/<http:\/\/[^/]+([^>]+)>/)?.[1];
    }
    return pages;
  }

  async #validate(exchange: Exchange): Promise<void> {
    const found = await findViolations(exchange);
    const { method, path, status } = exchange;
    this.#problems.expect(
      found.length === 0,
      "a response violates the OpenAPI document",
      `${method} ${path}: ${status}: ${found.join("; ")}`,
    );
  }

  #report(clients: KeyClient[], anonymous: AnonymousClients, passedSeconds: number): SoakReport {
    const sum = (of: (client: KeyClient) => number) =>
      clients.reduce((total, client) => total + of(client), 0);
    const floor = this.#times.get("floor") ?? [];
    return {
      seconds: Math.round(passedSeconds),
      keys: clients.length,
      requests: this.#requests,
      requestsPerSecond: Math.round(this.#requests / passedSeconds),
      admitted: sum(({ records }) => records.admitted),
      refused: sum(({ records }) => records.refused),
      banned: sum(({ records }) => records.banned),
      usedUpWindows: sum(({ records }) => records.usedUpWindows),
      admittedAfterWait: sum(({ admittedAfterWait }) => admittedAfterWait),
      anonymous: anonymous.figures,
      pets: this.#pets.size,
      validated: this.#sample.length,
      skipped: this.#skipped,
      lateP99Ms: percentile(this.#lateMs, 0.99),
      latencies: TIMED.map((kind) => latencyOf(kind, this.#times.get(kind) ?? [], floor)),
      memoryMb: this.#memoryMb.map((each) => Math.round(each * 10) / 10),
      memory: judge(this.#memoryMb),
      problems: this.#problems.sentences,
    };
  }
}

const PREFLIGHT: Outgoing = {
  method: "OPTIONS",
  path: "/v1/pets",
  headers: {
    Origin: "https://shop.example",
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization, content-type",
  },
};

function expectStatus(expected: number, problems: Problems): (answer: Answer) => void {
  return ({ status, body }) =>
    problems.expect(status === expected, `a response was not ${expected}`, `${status} ${body}`);
}

/** A key for the final checks. */
async function newSecretKey(database: D1Database): Promise<string> {
  const limits = { minute: MAX_LIMIT, day: MAX_LIMIT };
  const newOne = { name: "inspector", plan: "enterprise", limits, expiresAtMs: null } as const;
  return (await createKey(database, newOne, { by: "test", nowMs: Date.now() })).secret;
}

function latencyOf(kind: Timed, times: number[], floor: number[]): Latency {
  const [p50Ms, p99Ms] = [percentile(times, 0.5), percentile(times, 0.99)];
  const [p50Ratio, p99Ratio] = [p50Ms / percentile(floor, 0.5), p99Ms / percentile(floor, 0.99)];
  return { kind, requests: times.length, p50Ms, p99Ms, p50Ratio, p99Ratio };
}
