// Mixed traffic from many clients, over sockets to the Workers runtime with real D1 and Durable Objects, with or without kills of
// the runtime. At the end all counts must reconcile: each client's responses with its limits and its usage, and the acknowledged
// pets with the list. One isolate serves all requests, so without kills every count must be exact.

import { execFileSync } from "node:child_process";
import { setTimeout as wait } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import { addTablesAndPets, NO_LIMIT, newKey } from "../../../bench/cases/pets.ts";
import { PETSTORE } from "../../../bench/measure/implementations.ts";
import { median } from "../../../bench/measure/statistics.ts";
import { startWorkers } from "../../../bench/measure/workerd.ts";
import { type Pet, Petstore } from "../../../client/src/index.ts";
import { PLANS_WITH_OWN_LIMITS } from "../../../src/keys/plans.ts";
import { keyIdOf } from "../../../src/keys/secret.ts";
import { sum } from "../../../src/limits/windows.ts";
import { createKey } from "../../../src/operators/admin.ts";
import { WAIT_MS } from "../../support/hang.ts";
import { Client, PROFILES, type Profile, type Service } from "./client.ts";

const OTHER_PETS = 300;

/** Objects record their usage every ten minutes. */
const RECORDED_MS = 660_000;

/** Longer than leases and the reports of their ends, and than usage is cached. */
const QUIET_MS = 7_000;

/** Sends a burst, and is shorter than the time of a response. */
const SENDING_MS = 3;
const POLL_MS = 50;

const SAMPLE_EVERY_MS = 10_000;
/** Below eight minutes, the third quarter is part of the warm-up. */
const MIN_SAMPLES = 48;
/**
 * The maximum growth of the median from the third quarter to the last. Before, the runtime grows by itself: each object's SQLite
 * fills its cache, and the allocator keeps freed memory, while the JavaScript heap is constant. In ten minutes on an idle machine a
 * leak is visible from about a kilobyte per request.
 */
const MAX_GROWTH = 0.05;

/**
 * `kills`: how often the runtime is killed, at equal distances. Memory is watched if it never is. `awaitsRecords`: whether to wait until
 * the objects have recorded their usage.
 */
type LoadOptions = Record<"seconds" | "keys" | "kills", number> & { awaitsRecords?: true };

/** Runs the traffic and the checks, and prints the results. */
export async function report(options: LoadOptions): Promise<void> {
  console.error(`Sending requests for ${options.seconds} s`);
  const { figures, problems } = await load(options);
  for (const [name, value] of Object.entries(figures)) console.log(`${name}: ${value}`);
  for (const problem of problems.slice(0, 20)) console.log(`FAILED: ${problem}`);
  if (problems.length > 0) console.log(`${problems.length} checks failed`);
  process.exitCode = problems.length === 0 ? 0 : 1;
}

/** Runs the traffic and the checks. `problems` is empty if every check has passed. */
export async function load({ seconds, keys, kills, awaitsRecords }: LoadOptions) {
  const runtime = await startWorkers([PETSTORE]);
  const [{ url, databases }] = runtime.workers;
  const service: Service = { url, isDown: false, acknowledged: [], interrupted: new Set(), problems: [] };
  const clients: Client[] = [];
  const memoryMb: number[] = [];
  const watching = kills === 0 ? setInterval(sampleMemory, SAMPLE_EVERY_MS) : undefined;
  try {
    const stores = await databases();
    await addTablesAndPets(stores, OTHER_PETS);
    for (let number = 0; number < keys; number += 1) {
      const { plan, limits, ...profile } = PROFILES[number % PROFILES.length] as Profile;
      const own = PLANS_WITH_OWN_LIMITS.includes(plan) && { limits };
      const newOne = { name: `client ${number}`, plan, expiresAtMs: null, ...own };
      const { secret } = await createKey(stores.keys, newOne, { by: "test", nowMs: Date.now() });
      clients.push(new Client({ plan, limits, ...profile }, secret, service));
    }
    const inspector = petstore(await newKey(stores.keys, NO_LIMIT));
    for (let round = 0; round <= kills; round += 1) {
      const over = new AbortController();
      const sending = clients.map((client) => client.sendBursts(over.signal));
      await wait((seconds * 1000) / (kills + 1));
      if (round < kills) sending.push(...(await kill(round)));
      over.abort();
      await Promise.all(sending);
      if (round < kills) await waitUntilUp();
      else for (const client of clients) await client.repeat();
      if (round === kills) await wait(QUIET_MS);
      for (const { ledger, secret } of clients) ledger.checkUsage((await petstore(secret).usage()).days);
    }
    for (const { ledger } of clients) ledger.checkWindows();
    checkPets(await Array.fromAsync(inspector.pets.list()));
    if (awaitsRecords) await checkRecords();
  } finally {
    clearInterval(watching);
    await runtime.stop();
  }
  checkMemory();
  const problems = [...service.problems, ...clients.flatMap(({ ledger }) => ledger.problems)];
  if (!clients.some(({ ledger }) => ledger.exhausted > 0)) problems.push("no window reached its limit");
  if (kills > 0 && service.interrupted.size === 0) problems.push("the kills have interrupted no POST");
  return { figures: figures(), problems };

  /** Kills the runtime while POSTs are under way: before the first response to them, or mostly after it. Returns them. */
  async function kill(round: number): Promise<Promise<void>[]> {
    const sent = clients.filter(({ profile }) => profile.isWriter).flatMap((writer) => writer.burst());
    await (round % 2 === 0 ? wait(SENDING_MS) : Promise.race(sent));
    service.isDown = true;
    process.kill(runtime.processId(), "SIGKILL");
    for (const { ledger } of clients) ledger.kills += 1;
    return sent;
  }

  /** Miniflare starts the runtime again. */
  async function waitUntilUp(): Promise<void> {
    const startMs = performance.now();
    while (!(await fetch(new URL("/v1/pets", url), { method: "OPTIONS" }).catch(() => undefined))) {
      if (performance.now() - startMs > WAIT_MS) throw new Error("the runtime does not start again");
      await wait(POLL_MS);
    }
    service.isDown = false;
  }

  /** Without retries, which would hide errors. */
  function petstore(apiKey: string): Petstore {
    return new Petstore({ apiKey, baseURL: url, maxRetries: 0, timeoutMs: WAIT_MS });
  }

  /** Compares the whole list with what the clients know of their pets. */
  function checkPets(listed: Pet[]): void {
    const { acknowledged, interrupted, problems } = service;
    for (const field of ["id", "name"] as const) {
      const double = listed.length - new Set(listed.map((pet) => pet[field])).size;
      if (double > 0) problems.push(`${double} pets have the ${field} of another`);
    }
    const byId = new Map(listed.map((pet) => [pet.id, pet]));
    const lost = acknowledged.filter((pet) => !isDeepStrictEqual(byId.get(pet.id), pet));
    if (lost.length > 0) problems.push(`${lost.length} acknowledged pets are lost, such as ${lost[0]?.name}`);
    const names = new Set([...interrupted, ...acknowledged.map(({ name }) => name)]);
    const others = listed.filter(({ name }) => !names.has(name)).length;
    if (others !== OTHER_PETS)
      problems.push(`${others} pets whose POST was refused or not sent: ${OTHER_PETS} before`);
  }

  /** Waits until operators see what each client sees of its usage. */
  async function checkRecords(): Promise<void> {
    console.error("Waiting until all usage is recorded");
    const usages = await Promise.all(clients.map(({ secret }) => petstore(secret).usage()));
    const seen = clients.map(({ secret }, index) => {
      const days = usages[index]?.days.filter((day) => day.admitted + sum(day.refusedBy) > 0);
      const texts = days?.map((day) => [day.date, day.admitted, sum(day.refusedBy)].join(" "));
      return `${keyIdOf(secret)}: ${texts?.join(", ")}`;
    });
    const sql = `
      SELECT key_id || ': ' || group_concat(concat_ws(' ', day, admitted, (SELECT ifnull(sum(value), 0) FROM json_each(refused_by))), ', ' ORDER BY day)
      FROM key_usage GROUP BY key_id`;
    const startMs = performance.now();
    for (;;) {
      // Kills have made earlier stubs unusable.
      const { keys } = await databases();
      const recorded = (await keys.prepare(sql).raw()).flat();
      const missing = seen.filter((each) => !recorded.includes(each));
      if (missing.length === 0) return;
      if (performance.now() - startMs > RECORDED_MS) {
        service.problems.push(
          `operators do not see the usage of ${missing.length} keys, such as ${missing[0]}`,
        );
        return;
      }
      await wait(1_000);
    }
  }

  function sampleMemory(): void {
    const kilobytes = execFileSync("ps", ["-o", "rss=", "-p", `${runtime.processId()}`]);
    memoryMb.push(Math.round(Number(kilobytes) / 1024));
  }

  function checkMemory(): void {
    const quarter = Math.floor(memoryMb.length / 4);
    const [before, after] = [memoryMb.slice(-2 * quarter, -quarter), memoryMb.slice(-quarter)].map(median);
    if (memoryMb.length >= MIN_SAMPLES && Number(after) > Number(before) * (1 + MAX_GROWTH))
      service.problems.push(`memory is not stable: from ${before} MB to ${after} MB`);
  }

  function figures(): Record<string, number | string> {
    const total = (name: "admitted" | "refused" | "exhausted" | "lost") =>
      clients.reduce((sum, { ledger }) => sum + ledger[name], 0);
    const acknowledged = new Set(service.acknowledged.map(({ name }) => name));
    return {
      admitted: total("admitted"),
      refused: total("refused"),
      "windows that reached their limit": total("exhausted"),
      "counted, but not admitted": total("lost"),
      ...(kills > 0 && {
        "the most at a kill, % of the key's limit per minute": Math.round(
          100 * Math.max(...clients.map(({ ledger }) => ledger.mostLostShare)),
        ),
      }),
      "acknowledged pets": acknowledged.size,
      "interrupted pets": service.interrupted.size,
      "of these, acknowledged": service.interrupted.intersection(acknowledged).size,
      "memory in MB, every 10 s": memoryMb.join(" "),
    };
  }
}
