// A deployment and a rollback under load: Workers and objects of two releases side by side in workerd. One release is this one; the other one
// sends and stores a field less in each message.

import { setTimeout as wait } from "node:timers/promises";
import { expect, it, onTestFinished } from "vitest";
import { addTablesAndPets, newKey } from "../../../bench/cases/pets.ts";
import { type Change, startWorkers, type WorkerSource } from "../../../bench/measure/workerd.ts";

/** What the other release lacks: in a call, its answer, the answer about a secret, usage, and what is stored. */
const OLDER: readonly Change[] = [
  ["src/limits/isolate/key-state.ts", "decisions: this.#decisions,", ""],
  ["src/limits/object/acquire.ts", "leased: outstanding(quota, nowMs, own),", ""],
  ["src/limits/object/key-reader.ts", "isNew: this.#latestNumber > before || this.#isNull,", ""],
  ["src/limits/object/limited-object.ts", ", days: daysOf(quota.totals)", ""],
  [
    "src/limits/object/limited-object.ts",
    "put(STATE_KEY, state)",
    "put(STATE_KEY, { ...state, unwritten: undefined })",
  ],
];

const CURRENT = { file: "src/index.ts" };
const OBJECTS = {
  file: "test/e2e/rollout/objects.ts",
  modules: { current: CURRENT, older: { ...CURRENT, changes: OLDER } },
  object: { binding: "API_KEYS", className: "ApiKey" },
  sharedDatabases: { KEYS_DB: "shared keys" },
} satisfies WorkerSource;
const ISOLATE = {
  ...CURRENT,
  object: { binding: "API_KEYS", className: "ApiKey", livesIn: 0 },
  sharedDatabases: { PETS_DB: "shared pets", KEYS_DB: "shared keys" },
} satisfies WorkerSource;
const OLDER_ISOLATE = { ...ISOLATE, changes: OLDER } satisfies WorkerSource;

/** Of a minute and of a day, so that a minute which begins meanwhile makes no difference. */
const LIMIT = 300;
const KEYS = 3;
/** With this pause, each key gets one and a half times its limit in all phases. */
const GAP_MS = 15;
/** Which Workers get the requests, which code objects have, and for how long. The second and the fourth phase mix releases. */
const PHASES = [
  { workers: "older", objects: "/older", ms: 1_200 },
  { workers: "current", objects: "/older", ms: 1_800 },
  { workers: "current", objects: "/current?immediate", ms: 900 },
  { workers: "older", objects: "/current", ms: 1_800 },
  { workers: "older", objects: "/older?immediate", ms: 1_050 },
] as const;
/** Each object starts again twice, which costs at most 7 % of the limit each time (docs/deploying.md). */
const LEAST = 0.8 * LIMIT;

it("no request fails, and no key gets more than its limit, while Workers and objects change to another release and back", async () => {
  const isolates = [OLDER_ISOLATE, OLDER_ISOLATE, ISOLATE, ISOLATE] as const;
  const { workers, stop } = await startWorkers([OBJECTS, ...isolates]);
  onTestFinished(stop);
  const [objects, ...all] = workers;
  const keys = await all[0].database("KEYS_DB");
  await addTablesAndPets({ pets: await all[0].database("PETS_DB"), keys }, 0);
  const secrets = await Promise.all(Array.from({ length: KEYS }, () => newKey(keys, LIMIT)));
  const urls = { older: [all[0].url, all[1].url], current: [all[2].url, all[3].url] } as const;
  const setObjects = async (path: string) => fetch(new URL(path, objects.url), { method: "POST" });
  const statuses: number[][] = secrets.map(() => []);
  const send = async (url: URL, key: number) => {
    const headers = { Authorization: `Bearer ${secrets[key]}` };
    const response = await fetch(new URL("/v1/nowhere", url), { headers });
    await response.text();
    statuses[key]?.push(response.status);
  };
  const sent: Promise<void>[] = [];
  for (const { workers: release, objects: path, ms } of PHASES) {
    await setObjects(path);
    for (let turn = 0; turn < ms / GAP_MS; turn += 1) {
      for (let key = 0; key < KEYS; key += 1) sent.push(send(urls[release][turn % 2 ? 1 : 0], key));
      await wait(GAP_MS);
    }
  }
  await Promise.all(sent);
  // Both changes have reached all objects.
  expect(await (await setObjects("/older")).json()).toEqual({ older: 2 * KEYS, current: KEYS });
  for (const each of statuses) {
    expect(each.filter((status) => status !== 404 && status !== 429)).toEqual([]);
    const admitted = each.filter((status) => status === 404).length;
    expect(admitted).toBeLessThanOrEqual(LIMIT);
    expect(admitted).toBeGreaterThanOrEqual(LEAST);
  }
});
