// The designs of docs/limits.md keep the rules of those that they are modelled after, and the document has what they do.

import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { binding } from "../../bench/simulation/binding.ts";
import { climb, FAULTY } from "../../bench/simulation/climb.ts";
import { HEAD, markdown, SEEDS, SHOWN, SHOWN_COLUMNS, variants } from "../../bench/simulation/ladder.ts";
import type { Limiter } from "../../bench/simulation/limiter.ts";
import { memoryObject, storedObject } from "../../bench/simulation/object.ts";
import { petstore } from "../../bench/simulation/petstore.ts";
import { run } from "../../bench/simulation/run.ts";
import { syncedCounters } from "../../bench/simulation/synced-counters.ts";
import { windowRules } from "../../bench/simulation/window-rules.ts";
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

const DOCUMENT = readFileSync("docs/limits.md", "utf8");

it.each([
  ["rules of windows do", windowRules],
  ["variants do", () => variants(SEEDS)],
])("docs/limits.md has what %s", async (_, measure) => {
  const { columns, rows } = await measure();
  for (const cells of [columns, ...rows]) expect(DOCUMENT).toContain(markdown(cells));
});

/** The cells of a table of the document, without its head. */
function rowsOf(title: string): string[][] {
  const [, table = ""] = DOCUMENT.split(`<!-- ${title} -->\n`);
  const [rows = ""] = table.split("\n<!--");
  const lines = rows.split("\n").slice(2);
  return lines.map((line) => line.replace(/^\| | \|$/g, "").split(" | "));
}

// One plan, number of isolates and fault, because all of it takes minutes.
it("docs/limits.md has what the designs do: run npm run bench -- ladder after a change", async () => {
  const rungs = await climb(["free"], SEEDS, [FAULTY], ["isolates end"]);
  for (const [index, { design, byIsolates, byFault }] of rungs.entries()) {
    const cells = rowsOf("ladder")[index] ?? [];
    const cell = (title: string) => cells[HEAD.indexOf(title)];
    for (const { title, digits, figure } of SHOWN_COLUMNS) {
      const loads = byIsolates.get(FAULTY);
      const measured = loads && figure(loads).toFixed(digits);
      const written = cell(title)?.split(" · ")[SHOWN.indexOf(FAULTY)];
      expect([design, title, written]).toEqual([design, title, measured]);
    }
    const { above, below } = byFault["isolates end"];
    const cost = design === "binding" ? "–" : `${above.toFixed(0)} · ${below.toFixed(0)}`;
    expect([design, cell("Isolates end: above · below")]).toEqual([design, cost]);
  }
});

/** Of a column of the table of all figures, in rows that begin with plan, traffic and design. `place`: in each cell. */
function figures(begin: string, column: string, place?: number): (string | undefined)[] {
  return rowsOf("ladder")
    .filter((cells) => new RegExp(`^${begin} `).test(cells.join(" ")))
    .map((cells) => cells[HEAD.indexOf(column)]?.split(" · ") ?? [])
    .flatMap((cell) => (place === undefined ? cell : [cell[place]]));
}

const most = (all: (string | undefined)[]) => Math.max(...all.map(Number));

/** The most that a crash or the end of all isolates costs: admitted above the limit, and refused below it. */
function crashOf(begin: string): [above: number, below: number] {
  const columns = ["Object crashes: above · below", "Isolates end: above · below"];
  const at = (place: number) => most(columns.flatMap((column) => figures(begin, column, place)));
  return [at(0), at(1)];
}

it("the table to choose by in docs/limits.md has the worst figures for Pro of the table of all figures", () => {
  const choices = rowsOf("choice");
  expect(choices.length).toBe(5);
  for (const [design, above, wait, price, crash] of choices) {
    const begin = `Pro, \\w+ ${design}`;
    const worst = (column: string) => most(figures(begin, column, SHOWN.indexOf(FAULTY)));
    const dollars = worst("$ a million").toFixed(2);
    expect([design, above, wait, price]).toEqual([
      design,
      `${worst("Above, %")}`,
      `${worst("p99 at the limit")}`,
      dollars,
    ]);
    const [admitted, refused] = crashOf(begin);
    const cost = admitted > refused ? `+${admitted}` : `−${refused}`;
    expect([design, crash]).toEqual([design, design === "binding" ? "–" : cost]);
  }
});

/** The least and the most that this service costs on a plan. */
function dollarsOf(plan: string): string {
  const all = figures(`${plan}, \\w+ petstore`, "$ a million").sort();
  return `${all[0]} to ${all.at(-1)}`;
}

it("docs/scale.md has the prices of docs/limits.md", () => {
  const prices = ["Free", "Pro", "Business"].map(dollarsOf).join("; ");
  expect(readFileSync("docs/scale.md", "utf8")).toContain(`Free; Pro; Business | ${prices} |`);
});

it("what docs/limits.md says of each design has the figures of its tables", () => {
  const choices = Object.fromEntries(rowsOf("choice").map(([design, ...cells]) => [design, cells]));
  const inOneLocation = (name: string) => {
    const rows = rowsOf("variants").filter(([design]) => design === name);
    return most(rows.flatMap(([, , above = ""]) => above.split(" · ")));
  };
  const calls = (begin: string, isolates: number) =>
    figures(begin, "Calls a request", SHOWN.indexOf(isolates));
  const threeCounters = figures("Pro, \\w+ counters, 5 s", "Above, %", SHOWN.indexOf(3));
  const [memoryAbove, memoryWait, memoryPrice] = choices["object in memory"] ?? [];
  const [countersAbove, , countersPrice] = choices["counters, 5 s"] ?? [];
  const [, storedWait, storedPrice, storedCrash] = choices["stored object"] ?? [];
  const [, wait, , crash, lines] = choices.petstore ?? [];
  const [, crashOfBusiness] = crashOf("Business, \\w+ petstore");
  const phrases = [
    `${inOneLocation("binding, all clients in one location")} % more if its isolates learn of an admission after 100 ms`,
    `or ${inOneLocation("the same, an update takes 1 s")} % after 1 s`,
    `$${memoryPrice} and each waits for a round trip (p99 ${memoryWait} ms)`,
    `bursts get up to ${memoryAbove} % more`,
    `at $${countersPrice} a million`,
    `three admit up to ${most(threeCounters)} % more, ten ${countersAbove} %`,
    `$${storedPrice} a million, waits ${storedWait} ms (p99) and loses ${storedCrash?.slice(1)} % of a minute`,
    `$${dollarsOf("(Pro|Business)")} a million for Pro and Business but ${dollarsOf("Free")} for Free`,
    `loses ${crash?.slice(1)} % of a minute in a crash (of a Business key ${crashOfBusiness} %), waits ${wait} ms (p99)`,
    `${Number(lines).toLocaleString("en")} lines`,
    `${calls("Business, even petstore", FAULTY)} a request with 0.8 even requests a second, ${calls("Pro, even petstore", 1)} with 2.5`,
  ];
  const text = DOCUMENT.replace(/\s+/g, " ");
  expect(phrases.filter((phrase) => !text.includes(phrase))).toEqual([]);
});
