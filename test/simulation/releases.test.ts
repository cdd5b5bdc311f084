// Old and new code at once. During a deployment, each side gets messages of another release, and the object starts from what that has stored.
// Each field is missing in turn, on either side; others are unknown.

import { describe, expect, it } from "vitest";
import { MAX_LIMIT } from "../../src/limits/windows.ts";
import { addUnknown, drop, fieldsOf } from "../support/fields.ts";
import * as released from "../support/releases/1.1.0.ts";
import { costOfRestart, type Deployment, deploy, LIMIT } from "./deployment.ts";
import type { Alter } from "./world.ts";

/** What this release sends and stores, by how the simulation calls it. */
const CURRENT = { request: released.request, answer: released.answer, stored: released.stored };
type What = keyof typeof CURRENT;

const pathsOf = (value: unknown) => fieldsOf(value).map((path) => path.join("."));

it("nothing is sent or stored that the latest release does not have", async () => {
  const unknown = new Set<string>();
  // The object also sends what only itself uses of a lease, and the simulation stores its alarm.
  const OTHERS = ["answer.result.lease.used", "answer.result.lease.renewedMs", "stored.alarmMs"];
  const collect: Alter = (what, value) => {
    const paths = new Set(pathsOf(CURRENT[what]));
    for (const path of pathsOf(value)) if (!paths.has(path)) unknown.add(`${what}.${path}`);
    return value;
  };
  await deploy({ alter: collect });
  expect([...unknown].filter((each) => !OTHERS.includes(each))).toEqual([]);
});

/** What must hold during each deployment, and that all is exact after it. */
function expectHarmless(
  { thrown, noNumbers, broken, admitted, counted, firstMs }: Deployment,
  lost = 0,
): void {
  // What the object does not find in storage, it has forgotten. A window whose limit another release does not have shows the largest.
  const expected = ["an isolate was forgotten early", `a limit of ${MAX_LIMIT}`];
  const others = broken.filter((each) => !expected.includes(each));
  expect({ thrown, noNumbers, others }).toEqual({ thrown: [], noNumbers: [], others: [] });
  expect(Math.max(...admitted)).toBeLessThanOrEqual(LIMIT);
  // So the limit of the day holds as well.
  expect(counted).toBeGreaterThanOrEqual(admitted.reduce((sum, each) => sum + each) - lost);
  // Who is refused is admitted in the next minute.
  expect(Math.max(...firstMs)).toBeLessThan(5_000);
  expect(admitted.at(-1)).toBe(LIMIT);
}

describe.each(Object.keys(CURRENT) as What[])("another release's %s", (what) => {
  it.each(pathsOf(CURRENT[what]))("without %s is harmless", async (path) => {
    const alter: Alter = (each, value) => {
      if (each === what) drop(value, path.split("."));
      return value;
    };
    // Without all counts, nobody knows how much of the day was used before.
    expectHarmless(await deploy({ alter }), path === "quota" ? LIMIT : 0);
  });

  it("with unknown fields and windows is harmless", async () => {
    const alter: Alter = (each, value) => {
      if (each === what) addUnknown(value);
      return value;
    };
    expectHarmless(await deploy({ alter }));
  });
});

it("an object that does not know a method is harmless: its callers ask the primary", async () => {
  expectHarmless(await deploy({ lacksIdentify: true }));
});

/** Limits, and how many times as fast requests come. */
const RATES = [
  [60, 1.2],
  [60, 3],
  [300, 1.2],
  [300, 3],
  [1_000, 1.2],
] as const;

/** The most that one of these restarts costs a key, as a share of its minute's limit. */
async function mostLost(ends: boolean, resets: boolean): Promise<number> {
  const lost: number[] = [];
  for (const [limit, rate] of RATES)
    for (const isolates of [1, 10])
      lost.push((await costOfRestart({ limit, isolates, rate, ends, resets, seed: 1 })) / limit);
  return Math.max(...lost);
}

it("a deployment costs a key at its limit nothing while isolates end by and by, and objects when they sleep", async () => {
  expect(await mostLost(false, false)).toBe(0);
});

it.each([
  ["its object starts again", false, 0.1],
  ["its isolates end at once", true, 0.25],
])("a deployment costs a key at its limit no more than documents say if %s", async (_, ends, most) => {
  expect(await mostLost(ends, true)).toBeLessThanOrEqual(most);
});
