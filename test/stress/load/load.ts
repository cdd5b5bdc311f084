// Mixed traffic from many clients, over sockets to the Workers runtime with real D1 and Durable Objects, with or without kills of
// the runtime. At the end all counts must reconcile: each client's responses with its limits and its usage, and the acknowledged
// pets with the list. One isolate serves all requests, so without kills every count must be exact.

import { execFileSync } from "node:child_process";
import { setTimeout as wait } from "node:timers/promises";
import { addTablesAndPets, NO_LIMIT, newKey } from "../../../bench/cases/pets.ts";
import { PETSTORE } from "../../../bench/measure/implementations.ts";
import { type RunningWorkers, startWorkers } from "../../../bench/measure/workerd.ts";
import { Petstore } from "../../../client/src/index.ts";
import { PLANS_WITH_OWN_LIMITS } from "../../../src/keys/plans.ts";
import { createKey } from "../../../src/operators/admin.ts";
import { Client, type Planned, PROFILES, type Profile } from "./clients.ts";
import type { Answer, Expect } from "./ledger.ts";
import { checkMemory, SAMPLE_EVERY_MS } from "./memory.ts";
import { Pets } from "./pets.ts";

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

/** `kills`: how often the runtime is killed, at equal distances. Memory is watched if it never is. */
type LoadOptions = Record<"seconds" | "keys" | "kills", number>;

/** Runs the traffic and the checks, and prints the results. */
export async function report(options: LoadOptions): Promise<void> {
  console.error(`Sending requests for ${options.seconds} s`);
  const { figures, problems } = await load(options);
  for (const [name, value] of Object.entries(figures)) console.log(`${name}: ${value}`);
  for (const problem of problems) console.log(`FAILED: ${problem}`);
  process.exitCode = problems.length === 0 ? 0 : 1;
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
  /** The details of failed checks, by kind. */
  readonly #problems = new Map<string, string[]>();
  readonly #expect: Expect = (holds, kind, detail) => {
    if (!holds) this.#problems.set(kind, [...(this.#problems.get(kind) ?? []), detail]);
  };
  readonly #pets = new Pets(this.#expect);
  readonly #memoryMb: number[] = [];
  readonly #underway = new Set<Promise<void>>();
  /** When the runtime was killed (Unix time). */
  readonly #kills: number[] = [];
  readonly #clients: Client[] = [];
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
    await this.#addClients(databases.keys);
    const inspector = this.#petstore(await newKey(databases.keys, NO_LIMIT));
    await this.#runTraffic();
    for (const client of this.#clients)
      for (let retry = client.retry(); retry; retry = client.retry()) await this.#send(client, retry);
    await wait(QUIET_MS);
    await this.#checkUsage();
    for (const { ledger } of this.#clients) ledger.check();
    this.#pets.check(await Array.fromAsync(inspector.pets.list()), OTHER_PETS);
    checkMemory(this.#memoryMb, this.#expect);
    const isUseful = this.#kills.length === 0 || this.#pets.interrupted.size > 0;
    this.#expect(isUseful, "no write was interrupted, so the kills tested nothing", "");
    const problems = Array.from(this.#problems, ([kind, all]) => `${kind} (${all.length} times): ${all[0]}`);
    return { figures: this.#figures(), problems };
  }

  async #addClients(keys: D1Database): Promise<void> {
    for (let number = 0; number < this.#options.keys; number += 1) {
      const profile = PROFILES[number % PROFILES.length] as Profile;
      const { plan, limits } = profile;
      const own = PLANS_WITH_OWN_LIMITS.includes(plan) && { limits };
      const newOne = { name: `client ${number}`, plan, expiresAtMs: null, ...own };
      const { secret } = await createKey(keys, newOne, { by: "test", nowMs: Date.now() });
      this.#clients.push(new Client(number, profile, secret, this.#pets, this.#kills, this.#expect));
    }
  }

  async #runTraffic(): Promise<void> {
    const { seconds, kills } = this.#options;
    const sending = this.#clients.map((client) => this.#sendBursts(client));
    try {
      const watching = kills === 0 ? this.#watchMemory() : this.#killRepeatedly();
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
    const answer = await this.#fetch(planned, client.secret).catch((error: Error) => error);
    if (!(answer instanceof Error)) return client.record(planned, answer);
    const wasKilled = sentAtMs <= (this.#kills.at(-1) ?? 0);
    this.#expect(wasKilled, "a request got no response", `${planned.path}: ${answer.message}`);
    client.interrupt(planned);
  }

  /** Fails if there is no response in time, or only a part of it. */
  async #fetch({ path, pet: _, headers, ...init }: Planned, secret = ""): Promise<Answer> {
    const sentAtMs = Date.now();
    const response = await fetch(new URL(path, this.#service.workers[0].url), {
      ...init,
      headers: { Authorization: `Bearer ${secret}`, ...headers },
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    const body = await response.text();
    return { status: response.status, headers: response.headers, body, sentAtMs, cameAtMs: Date.now() };
  }

  async #watchMemory(): Promise<void> {
    for (let sample = 1; sample * SAMPLE_EVERY_MS <= this.#options.seconds * 1000; sample += 1) {
      await wait(SAMPLE_EVERY_MS);
      const kilobytes = execFileSync("ps", ["-o", "rss=", "-p", `${this.#service.processId()}`]);
      this.#memoryMb.push(Math.round(Number(kilobytes) / 1024));
    }
  }

  async #killRepeatedly(): Promise<void> {
    const { seconds, kills } = this.#options;
    const writers = this.#clients.filter(({ profile }) => profile.isWriter);
    for (let kill = 1; kill <= kills; kill += 1) {
      await wait((seconds * 1000) / (kills + 1));
      // POSTs are under way before the first response, and mostly after it.
      const sent = writers.flatMap((writer) => this.#sendBurst(writer));
      await (kill % 2 === 1 ? wait(SENDING_MS) : Promise.race(sent));
      await this.#killRuntime();
      await this.#checkUsage();
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

  async #checkUsage(): Promise<void> {
    for (const { ledger, secret } of this.#clients)
      ledger.checkUsage((await this.#petstore(secret).usage()).days);
  }

  /** Without retries, which would hide errors. */
  #petstore(apiKey: string): Petstore {
    const baseURL = this.#service.workers[0].url;
    return new Petstore({ apiKey, baseURL, maxRetries: 0, timeoutMs: TIMEOUT_MS });
  }

  #figures(): Record<string, string | number> {
    const total = (of: (client: Client) => number) => this.#clients.reduce((sum, each) => sum + of(each), 0);
    const { acknowledged, interrupted } = this.#pets;
    return {
      requests: this.#requests,
      refused: total(({ ledger }) => ledger.refused),
      "windows that reached their limit": total(({ ledger }) => ledger.exhausted),
      "counted, but not admitted": total(({ ledger }) => ledger.lost),
      "acknowledged pets": acknowledged.size,
      "interrupted pets": interrupted.size,
      "of these, acknowledged by another response": [...interrupted].filter((name) => acknowledged.has(name))
        .length,
      ...(this.#memoryMb.length > 0 && { "memory in MB, every 10 s": this.#memoryMb.join(" ") }),
    };
  }
}
