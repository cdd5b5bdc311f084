// Mixed traffic from many clients, over sockets to the Workers runtime with real D1 and Durable Objects, with or without kills of
// the runtime. At the end all counts must reconcile: each client's responses with its limits and its usage, and the acknowledged
// pets with the list. One isolate serves all requests, so without kills every count must be exact.

import { setTimeout as wait } from "node:timers/promises";
import { addTablesAndPets, NO_LIMIT, newKey } from "../../../bench/cases/pets.ts";
import { PETSTORE } from "../../../bench/measure/implementations.ts";
import { type RunningWorkers, startWorkers } from "../../../bench/measure/workerd.ts";
import { Petstore } from "../../../client/src/index.ts";
import { PLANS_WITH_OWN_LIMITS } from "../../../src/keys/plans.ts";
import { createKey } from "../../../src/operators/admin.ts";
import { Client, type HttpRequest, type Planned, PROFILES, type Profile } from "./clients.ts";
import type { Answer } from "./ledger.ts";
import { checkMemory, residentMb, SAMPLE_EVERY_MS } from "./memory.ts";
import { Pets } from "./pets.ts";
import { Problems } from "./problems.ts";

const OTHER_PETS = 300;

/** Above this, bursts are skipped, so that a slow machine does not fail by its number of connections. */
const MAX_UNDERWAY = 200;

/** Only to end what hangs. */
const TIMEOUT_MS = 30_000;
const POLL_MS = 50;

/** Sends a burst, and is shorter than the time of a response. */
const SENDING_MS = 3;

/** Longer than leases and the reports of their ends, and than usage is cached. */
const QUIET_MS = 7_000;

export interface LoadOptions {
  seconds: number;
  keys: number;
  /** How often the runtime is killed, at equal distances. Memory is watched if it never is. */
  kills: number;
}

/** Runs the traffic and the checks. `problems` is empty if every check has passed. */
export async function load(options: LoadOptions) {
  const service = await startWorkers([PETSTORE]);
  try {
    return await new Load(options, service).run();
  } finally {
    await service.stop();
  }
}

class Load {
  readonly #options: LoadOptions;
  readonly #service: RunningWorkers<readonly [typeof PETSTORE]>;
  readonly #problems = new Problems();
  readonly #pets = new Pets(this.#problems);
  readonly #memoryMb: number[] = [];
  readonly #underway = new Set<Promise<void>>();
  /** When the runtime was killed (Unix time). */
  readonly #kills: number[] = [];
  #isDown = false;
  #isOver = false;
  #requests = 0;

  constructor(options: LoadOptions, service: RunningWorkers<readonly [typeof PETSTORE]>) {
    this.#options = options;
    this.#service = service;
  }

  async run() {
    const databases = await this.#service.workers[0].databases();
    await addTablesAndPets(databases, OTHER_PETS);
    const clients = await this.#newClients(databases.keys);
    const inspector = this.#petstore(await newKey(databases.keys, NO_LIMIT));
    await this.#runTraffic(clients);
    for (const client of clients) await this.#retryInterrupted(client);
    await wait(QUIET_MS);
    await this.#checkUsage(clients);
    for (const { ledger } of clients) ledger.check(this.#problems);
    this.#pets.check(await Array.fromAsync(inspector.pets.list()), OTHER_PETS);
    checkMemory(this.#memoryMb, this.#problems);
    const isUseful = this.#kills.length === 0 || this.#pets.interrupted > 0;
    this.#problems.expect(isUseful, "no write was interrupted, so the kills tested nothing", "");
    const figures = this.#figures(clients);
    return { figures, memoryMb: this.#memoryMb.map(Math.round), problems: this.#problems.lines };
  }

  async #newClients(keys: D1Database): Promise<Client[]> {
    const shared = { pets: this.#pets, problems: this.#problems, kills: this.#kills };
    const clients: Client[] = [];
    while (clients.length < this.#options.keys) {
      const [number, profile] = [clients.length, PROFILES[clients.length % PROFILES.length] as Profile];
      const { plan, limits } = profile;
      const own = PLANS_WITH_OWN_LIMITS.includes(plan) && { limits };
      const newOne = { name: `client ${number}`, plan, expiresAtMs: null, ...own };
      const { secret } = await createKey(keys, newOne, { by: "test", nowMs: Date.now() });
      clients.push(new Client(number, profile, secret, shared));
    }
    return clients;
  }

  async #runTraffic(clients: Client[]): Promise<void> {
    const { seconds, kills } = this.#options;
    const sending = clients.map((client) => this.#sendBursts(client));
    try {
      const watching = kills === 0 ? this.#watchMemory() : this.#killRepeatedly(clients);
      await Promise.all([wait(seconds * 1000), watching]);
    } finally {
      this.#isOver = true;
    }
    await Promise.all(sending);
    await Promise.all(this.#underway);
  }

  /** Sends at the client's rate while the runtime is up, whether responses come or not. Late bursts catch up. */
  async #sendBursts(client: Client): Promise<void> {
    const everyMs = 60_000 * (client.profile.burst / client.profile.perMinute);
    for (let atMs = performance.now() + Math.random() * everyMs; !this.#isOver; atMs += everyMs) {
      await wait(Math.max(0, atMs - performance.now()));
      if (!this.#isDown && !this.#isOver && this.#underway.size < MAX_UNDERWAY) void this.#sendBurst(client);
    }
  }

  #sendBurst(client: Client): Promise<void>[] {
    return client.burst().map((planned) => {
      const done = this.#send(client, planned).finally(() => this.#underway.delete(done));
      this.#underway.add(done);
      return done;
    });
  }

  async #send(client: Client, planned: Planned): Promise<void> {
    const sentAtMs = Date.now();
    this.#requests += 1;
    const answer = await this.#fetch(planned).catch((error: Error) => error);
    if (!(answer instanceof Error)) return client.record(planned, answer);
    const wasKilled = sentAtMs <= (this.#kills.at(-1) ?? 0);
    const detail = `${planned.method} ${planned.path}: ${answer.message}`;
    this.#problems.expect(wasKilled, "a request got no response", detail);
    client.interrupt(planned);
  }

  /** Fails if there is no response in time, or only a part of it. */
  async #fetch({ path, ...init }: HttpRequest): Promise<Answer> {
    const sentAtMs = Date.now();
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    const response = await fetch(new URL(path, this.#service.workers[0].url), { ...init, signal });
    const body = await response.text();
    return { status: response.status, headers: response.headers, body, sentAtMs, cameAtMs: Date.now() };
  }

  async #watchMemory(): Promise<void> {
    for (let sample = 1; sample * SAMPLE_EVERY_MS <= this.#options.seconds * 1000; sample += 1) {
      await wait(SAMPLE_EVERY_MS);
      this.#memoryMb.push(residentMb(this.#service.processId()));
    }
  }

  async #killRepeatedly(clients: Client[]): Promise<void> {
    const { seconds, kills } = this.#options;
    const writers = clients.filter(({ profile }) => profile.isWriter);
    for (let kill = 1; kill <= kills; kill += 1) {
      await wait((seconds * 1000) / (kills + 1));
      // POSTs are under way before the first response, and mostly after it.
      const sent = writers.flatMap((writer) => this.#sendBurst(writer));
      await (kill % 2 === 1 ? wait(SENDING_MS) : Promise.race(sent));
      await this.#killRuntime();
      await this.#checkUsage(clients);
      this.#isDown = false;
    }
  }

  /** Kills the runtime, which miniflare starts again, and waits until it answers. */
  async #killRuntime(): Promise<void> {
    const killedMs = performance.now();
    this.#isDown = true;
    this.#kills.push(Date.now());
    process.kill(this.#service.processId(), "SIGKILL");
    await Promise.all(this.#underway);
    while (!(await this.#fetch({ method: "OPTIONS", path: "/v1/pets" }).catch(() => undefined))) {
      if (performance.now() - killedMs > TIMEOUT_MS) throw new Error("the runtime does not start again");
      await wait(POLL_MS);
    }
  }

  async #retryInterrupted(client: Client): Promise<void> {
    for (let retry = client.retry(); retry; retry = client.retry()) await this.#send(client, retry);
  }

  async #checkUsage(clients: Client[]): Promise<void> {
    for (const { ledger, secret } of clients)
      ledger.checkUsage((await this.#petstore(secret).usage()).days, this.#problems);
  }

  /** Without retries, which would hide errors. */
  #petstore(apiKey: string): Petstore {
    const baseURL = this.#service.workers[0].url;
    return new Petstore({ apiKey, baseURL, maxRetries: 0, timeoutMs: TIMEOUT_MS });
  }

  #figures(clients: Client[]): Record<string, number> {
    const total = (of: (client: Client) => number) => clients.reduce((sum, client) => sum + of(client), 0);
    return {
      requests: this.#requests,
      kills: this.#kills.length,
      "admitted with a key": total(({ ledger }) => ledger.admitted),
      refused: total(({ ledger }) => ledger.refused),
      "windows that reached their limit": total(({ ledger }) => ledger.exhausted),
      "acknowledged pets": this.#pets.acknowledged,
      "interrupted pets": this.#pets.interrupted,
      "of these, acknowledged after a retry": this.#pets.retried,
      "counted, but not admitted": total(({ ledger }) => ledger.lost),
      "of these, explained by kills at most": total(({ ledger }) => ledger.maxLost),
    };
  }
}
