// The designs of docs/limits.md keep the rules of those that they are modelled after, and its figures are what they do.

import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { binding } from "../../bench/simulation/binding.ts";
import { climb, DESIGNS, FAULTY } from "../../bench/simulation/climb.ts";
import { choice, type Row, rowOf } from "../../bench/simulation/ladder.ts";
import type { Limiter } from "../../bench/simulation/limiter.ts";
import { memoryObject, storedObject } from "../../bench/simulation/object.ts";
import { petstore } from "../../bench/simulation/petstore.ts";
import { run } from "../../bench/simulation/run.ts";
import { syncedCounters } from "../../bench/simulation/synced-counters.ts";
import { Random } from "./random.ts";

const SETTING = { limit: 100, isolates: 12, lostShare: 0 };
const newSetting = () => ({ ...SETTING, random: new Random(1) });

/** How many of `requests` at one instant an isolate admits. Lets time pass until all are decided. */
async function admitted(limiter: Limiter, isolate: number, requests: number): Promise<number> {
  const ask = () => limiter.ask(isolate).catch(() => ({ admitted: false }));
  const asked = Array.from({ length: requests }, ask);
  await limiter.time.run(limiter.time.nowMs + 1_000);
  const outcomes = await Promise.all(asked);
  return outcomes.filter((each) => each.admitted).length;
}

/** Lets time pass. */
const pass = (limiter: Limiter, ms: number) => limiter.time.run(limiter.time.nowMs + ms);

it("the binding has a limit for each location, whose isolates know of an admission after a moment", async () => {
  const limiter = binding(newSetting());
  // Isolates 0 and 6 are in one location, 1 in another.
  const [first, second] = await Promise.all([admitted(limiter, 0, 60), admitted(limiter, 6, 60)]);
  expect([first, second]).toEqual([60, 60]);
  expect(await admitted(limiter, 6, 1)).toBe(0);
  expect(await admitted(limiter, 1, 1)).toBe(1);
  expect(await admitted(limiter, 1, 150)).toBe(99);
  await pass(limiter, 60_000);
  expect(await admitted(limiter, 0, 150)).toBe(100);
});

it("an object in memory has one limit, until it crashes or gets no request for ten seconds", async () => {
  const limiter = memoryObject(newSetting());
  expect(await admitted(limiter, 0, 150)).toBe(100);
  await pass(limiter, 8_000);
  expect(await admitted(limiter, 5, 1)).toBe(0);
  await pass(limiter, 10_000);
  expect(await admitted(limiter, 5, 60)).toBe(60);
  limiter.crash();
  expect(await admitted(limiter, 5, 150)).toBe(100);
});

it("a stored object has one limit, also after a crash and a pause, and writes a row for each admission", async () => {
  const limiter = storedObject(newSetting());
  expect(await admitted(limiter, 0, 60)).toBe(60);
  await pass(limiter, 12_000);
  limiter.crash();
  expect(await admitted(limiter, 5, 60)).toBe(40);
  expect(limiter.counts).toMatchObject({ objectRequests: 120, rowsWritten: 100 });
});

it.each([memoryObject, storedObject])(
  "an object counts a request twice whose answer was lost",
  async (design) => {
    const limiter = design({ ...newSetting(), lostShare: 0.1 });
    expect(await admitted(limiter, 0, 95)).toBeLessThan(95);
  },
);

it("a call whose answer is under way is lost when the object crashes, and repeated", async () => {
  const limiter = storedObject(newSetting());
  const asked = limiter.ask(1);
  // One way to the object takes half of it.
  await pass(limiter, 75);
  limiter.crash();
  await limiter.time.run();
  expect((await asked).admitted).toBe(true);
  expect(limiter.counts.objectRequests).toBe(2);
});

it("requests that wait in an isolate that ends get no response", async () => {
  const scenario = { limit: 1_000, isolates: 10, traffic: "even", load: 3 } as const;
  const { unanswered } = await run(storedObject, { ...scenario, fault: "isolates end" }, [1]);
  expect(unanswered).toBeGreaterThan(0);
});

it("counters are exchanged every five seconds, once one has reached a fifth of the limit", async () => {
  const limiter = syncedCounters(newSetting());
  expect(await admitted(limiter, 0, 19)).toBe(19);
  await pass(limiter, 14_000);
  expect(await admitted(limiter, 1, 100)).toBe(100);
  await pass(limiter, 14_000);
  // Isolate 1 has sent 100, which isolate 0 has got meanwhile.
  expect(await admitted(limiter, 0, 1)).toBe(0);
  limiter.endIsolate(1);
  expect(await admitted(limiter, 1, 50)).toBe(50);
});

it("petstore has one limit, also after a crash and a pause, and is charged for calls, rows and its alarm", async () => {
  const limiter = petstore(newSetting());
  expect(await admitted(limiter, 0, 60)).toBe(60);
  const { rowsRead } = limiter.counts;
  await pass(limiter, 12_000);
  limiter.crash();
  expect(await admitted(limiter, 1, 60)).toBe(40);
  limiter.check?.();
  // Its stored value, and its key.
  expect(limiter.counts.rowsRead).toBe(rowsRead + 2);
  const { objectRequests, rowsWritten } = limiter.counts;
  expect(objectRequests).toBeLessThan(15);
  expect(rowsWritten).toBeGreaterThan(objectRequests - 5);
  await pass(limiter, 20 * 60_000);
  expect(limiter.counts.objectRequests).toBe(objectRequests + 1);
  expect(limiter.counts.rowsWritten).toBeGreaterThan(rowsWritten);
});

const [COLUMNS = [], ...CELLS] = readFileSync("docs/limits.csv", "utf8")
  .trim()
  .split("\n")
  .map((line) => line.split(","));
const ROWS = CELLS.map(
  (cells): Row => Object.fromEntries(COLUMNS.map((name, place) => [name, cells[place] ?? ""])),
);

/** The numbers of a column in the rows that have these cells. */
function figures(column: string, cells: Row): number[] {
  const rows = ROWS.filter((row) => Object.entries(cells).every(([name, cell]) => row[name] === cell));
  if (rows.length === 0) throw new Error(`no row has ${JSON.stringify(cells)}`);
  return rows.map((row) => Number(row[column]));
}

// One plan, number of isolates, fault and kind of traffic, because all of it takes minutes.
it("docs/limits.csv has what the designs do: run npm run bench -- ladder after a change", async () => {
  const rungs = await climb(["free"], [FAULTY], ["isolates end"], ["bursty"]);
  expect(rungs).toHaveLength(Object.keys(DESIGNS).length);
  for (const measured of rungs.map(rowOf)) {
    const { plan, traffic, design, isolates, ...others } = measured;
    const written = ROWS.find(
      (row) =>
        row.plan === plan && row.traffic === traffic && row.design === design && row.isolates === isolates,
    );
    // The other faults are empty.
    const known = Object.fromEntries(Object.entries(others).filter(([, cell]) => cell !== ""));
    expect([traffic, design, written]).toMatchObject([traffic, design, known]);
  }
});

const DOCUMENT = readFileSync("docs/limits.md", "utf8");

it("the table of docs/limits.md follows from docs/limits.csv", () => {
  const { columns, rows } = choice(ROWS);
  for (const cells of [columns, ...rows]) expect(DOCUMENT).toContain(`| ${cells.join(" | ")} |`);
});

/** The least and the most that this service costs on a plan. */
function dollarsOf(plan: string): string {
  const all = figures("dollars_per_million", { plan, design: "petstore" });
  return [Math.min(...all), Math.max(...all)].map((each) => each.toFixed(2)).join(" to ");
}

it("what docs/limits.md says of designs has the figures of docs/limits.csv", () => {
  const above = (design: string, isolates: number) =>
    Math.max(...figures("above_percent", { plan: "pro", design, isolates: `${isolates}` }));
  const calls = (plan: string, isolates: string) =>
    figures("calls_per_request", { plan, traffic: "even", design: "petstore", isolates })[0]?.toFixed(2);
  const phrases = [
    `${above("binding in one location", FAULTY)} % more if its isolates learn of an admission after 100 ms`,
    `${above("binding in one location updated after 1 s", FAULTY)} % after 1 s`,
    `three isolates admit up to ${above("synced counters", 3)} % more`,
    `Free ${dollarsOf("free")}, Pro ${dollarsOf("pro")}, Business ${dollarsOf("business")}`,
    `${calls("business", `${FAULTY}`)} calls a request with 0.8 even requests a second, ${calls("pro", "1")} with 2.5`,
  ];
  const text = DOCUMENT.replace(/\s+/g, " ");
  expect(phrases.filter((phrase) => !text.includes(phrase))).toEqual([]);
});
