// Mixed traffic from many clients, over sockets to the Workers runtime with real D1 and Durable Objects, with or without kills of
// the runtime. At the end all counts must reconcile: each client's responses with its limits and its usage, and the acknowledged
// pets with the list. One isolate serves all requests, so without kills every count must be exact.

import { execFileSync } from "node:child_process";
import { setTimeout as wait } from "node:timers/promises";
import { addTablesAndPets, NO_LIMIT, newKey } from "../../../bench/cases/pets.ts";
import { PETSTORE } from "../../../bench/measure/implementations.ts";
import { startWorkers } from "../../../bench/measure/workerd.ts";
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

/** `rounds`: how often the runtime is killed, at equal distances. Memory is watched if it never is. */
type LoadOptions = Record<"seconds" | "keys" | "rounds", number>;

/** Runs the traffic and the checks, and prints the results. */
export async function report(options: LoadOptions): Promise<void> {
  console.error(`Sending requests for ${options.seconds} s`);
  const { figures, problems } = await load(options);
  for (const [name, value] of Object.entries(figures)) console.log(`${name}: ${value}`);
  for (const problem of problems) console.log(`FAILED: ${problem}`);
  process.exitCode = problems.length === 0 ? 0 : 1;
}

/** Runs the traffic and the checks. `problems` is empty if every check has passed. */
export async function load({ seconds, keys, rounds }: LoadOptions) {
  /** The details of failed checks, by kind. */
  const failed = new Map<string, string[]>();
  const expect: Expect = (holds, kind, detail) => {
    if (!holds) failed.set(kind, [...(failed.get(kind) ?? []), detail]);
  };
  const pets = new Pets(expect);
  const clients: Client[] = [];
  const memoryMb: number[] = [];
  /** When the runtime was killed (Unix time). */
  const kills: number[] = [];
  const underway = new Set<Promise<void>>();
  let isDown = false;
  let isOver = false;

  const service = await startWorkers([PETSTORE]);
  const [{ url, databases }] = service.workers;
  try {
    const stores = await databases();
    await addTablesAndPets(stores, OTHER_PETS);
    for (let number = 0; number < keys; number += 1) {
      const profile = PROFILES[number % PROFILES.length] as Profile;
      const { plan, limits } = profile;
      const own = PLANS_WITH_OWN_LIMITS.includes(plan) && { limits };
      const newOne = { name: `client ${number}`, plan, expiresAtMs: null, ...own };
      const { secret } = await createKey(stores.keys, newOne, { by: "test", nowMs: Date.now() });
      clients.push(new Client(number, profile, secret, pets, kills, expect));
    }
    const inspector = petstore(await newKey(stores.keys, NO_LIMIT));
    const sending = clients.map(sendBursts);
    const watching = rounds === 0 ? watchMemory() : killRepeatedly();
    await Promise.all([wait(seconds * 1000), watching]).finally(() => {
      isOver = true;
    });
    await Promise.all(sending);
    await Promise.all(underway);
    for (const client of clients) for (const planned of client.toRetry.splice(0)) await send(client, planned);
    await wait(QUIET_MS);
    await checkUsage();
    for (const { ledger } of clients) ledger.check();
    pets.check(await Array.fromAsync(inspector.pets.list()), OTHER_PETS);
  } finally {
    await service.stop();
  }
  checkMemory(memoryMb, expect);
  const { acknowledged, interrupted } = pets;
  expect(rounds === 0 || interrupted.size > 0, "no write was interrupted, so the kills tested nothing", "");
  const total = (of: (client: Client) => number) => clients.reduce((sum, client) => sum + of(client), 0);
  const figures: Record<string, number | string> = {
    admitted: total(({ ledger }) => ledger.admitted),
    refused: total(({ ledger }) => ledger.refused),
    "windows that reached their limit": total(({ ledger }) => ledger.exhausted),
    "counted, but not admitted": total(({ ledger }) => ledger.lost),
    "acknowledged pets": acknowledged.size,
    "interrupted pets": interrupted.size,
    "of these, acknowledged": [...interrupted].filter((name) => acknowledged.has(name)).length,
    ...(rounds === 0 && { "memory in MB, every 10 s": memoryMb.join(" ") }),
  };
  return {
    figures,
    problems: Array.from(failed, ([kind, all]) => `${kind} (${all.length} times): ${all[0]}`),
  };

  /** Sends at the client's rate while the runtime is up, whether responses come or not. Late bursts catch up. */
  async function sendBursts(client: Client): Promise<void> {
    const everyMs = 60_000 * (client.profile.burst / client.profile.perMinute);
    for (let atMs = performance.now() + Math.random() * everyMs; !isOver; atMs += everyMs) {
      await wait(Math.max(0, atMs - performance.now()));
      if (!isDown && !isOver && underway.size < MAX_UNDERWAY) void sendBurst(client);
    }
  }

  function sendBurst(client: Client): Promise<void>[] {
    return client.burst().map((planned) => {
      const done = send(client, planned).finally(() => underway.delete(done));
      underway.add(done);
      return done;
    });
  }

  async function send(client: Client, planned: Planned): Promise<void> {
    const sentAtMs = Date.now();
    const answer = await request(planned.path, planned.init).catch((error: Error) => error);
    if (!(answer instanceof Error)) return client.record(planned, answer);
    const wasKilled = sentAtMs <= (kills.at(-1) ?? 0);
    expect(wasKilled, "a request got no response", `${planned.path}: ${answer.message}: ${answer.cause}`);
    client.interrupt(planned);
  }

  /** Fails if there is no response in time, or only a part of it. */
  async function request(path: string, init: RequestInit): Promise<Answer> {
    const sentAtMs = Date.now();
    const response = await fetch(new URL(path, url), { ...init, signal: AbortSignal.timeout(TIMEOUT_MS) });
    const body = await response.text();
    return { status: response.status, headers: response.headers, body, sentAtMs, cameAtMs: Date.now() };
  }

  async function watchMemory(): Promise<void> {
    for (let atMs = SAMPLE_EVERY_MS; atMs <= seconds * 1000; atMs += SAMPLE_EVERY_MS) {
      await wait(SAMPLE_EVERY_MS);
      const kilobytes = execFileSync("ps", ["-o", "rss=", "-p", `${service.processId()}`]);
      memoryMb.push(Math.round(Number(kilobytes) / 1024));
    }
  }

  /** Kills the runtime, which miniflare starts again, and waits until it answers. */
  async function killRepeatedly(): Promise<void> {
    const writers = clients.filter(({ profile }) => profile.isWriter);
    for (let kill = 1; kill <= rounds; kill += 1) {
      await wait((seconds * 1000) / (rounds + 1));
      // POSTs are under way before the first response, and mostly after it.
      const sent = writers.flatMap(sendBurst);
      await (kill % 2 === 1 ? wait(SENDING_MS) : Promise.race(sent));
      const killedMs = performance.now();
      isDown = true;
      kills.push(Date.now());
      process.kill(service.processId(), "SIGKILL");
      await Promise.all(underway);
      while (!(await request("/v1/pets", { method: "OPTIONS" }).catch(() => undefined))) {
        if (performance.now() - killedMs > TIMEOUT_MS) throw new Error("the runtime does not start again");
        await wait(POLL_MS);
      }
      await checkUsage();
      isDown = false;
    }
  }

  async function checkUsage(): Promise<void> {
    for (const { ledger, secret } of clients) ledger.checkUsage((await petstore(secret).usage()).days);
  }

  /** Without retries, which would hide errors. */
  function petstore(apiKey: string): Petstore {
    return new Petstore({ apiKey, baseURL: url, maxRetries: 0, timeoutMs: TIMEOUT_MS });
  }
}
