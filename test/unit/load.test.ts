// The checks of npm run soak and npm run crash: each notices its violation, and nothing else is one.

import { describe, expect, it } from "vitest";
import { Ledger } from "../stress/load/ledger.ts";
import { checkMemory } from "../stress/load/memory.ts";
import { NAME_PREFIX, Pets } from "../stress/load/pets.ts";
import { Problems } from "../stress/load/problems.ts";

const START_MS = Date.parse("2026-11-20T12:34:00Z");
const LIMITS = { minute: 32, day: 1_000 };

/** The kinds of the problems that the checks add. */
function kindsOf(check: (problems: Problems) => void): string[] {
  const problems = new Problems();
  check(problems);
  return [...problems.found.keys()];
}

/** The response, `ms` after the minute's start, to a request at the same time. */
function answer(status: number, left: number, ms: number) {
  const seconds = 60 - Math.floor(ms / 1000);
  const headers = new Headers({
    RateLimit: `"minute";r=${left};t=${seconds}, "day";r=${left + 500};t=${11 * 3600 + 25 * 60 + seconds}`,
    "X-RateLimit-Reset": `${START_MS / 1000 + 60}`,
  });
  return { status, headers, body: "", sentAtMs: START_MS + ms, cameAtMs: START_MS + ms };
}

const EXACT = { admitted: 32, left: 0, refused: 1, later: 0, kills: 0, interrupted: 0, usage: {} };

/** What the checks find after so many admissions, one a millisecond, then refusals and interruptions, and more admissions. */
function ledgerOf(run: Partial<typeof EXACT>) {
  const { admitted, left, refused, later, kills, interrupted, usage } = { ...EXACT, ...run };
  const killedMs = Array.from({ length: kills }, () => START_MS + 500);
  const ledger = new Ledger("a client", LIMITS, killedMs);
  for (let sent = 0; sent < admitted; sent += 1)
    ledger.record(answer(200, Math.max(0, LIMITS.minute - sent - 1), sent));
  for (let sent = 0; sent < refused; sent += 1) ledger.record(answer(429, left, 600));
  for (let sent = 0; sent < later; sent += 1) ledger.record(answer(200, 0, 700));
  for (let sent = 0; sent < interrupted; sent += 1) ledger.interrupt();
  const day = { date: "2026-11-20", admitted: admitted + later, refused, ...usage };
  return kindsOf((problems) => {
    ledger.check(problems);
    ledger.checkUsage([day], problems);
  });
}

const ADMISSIONS = "usage shows a wrong number of admissions";
const REFUSALS = "usage shows a wrong number of refusals";

describe("the ledger of a client", () => {
  it.each([
    ["exactly the limit", {}],
    ["fewer requests than the limit", { admitted: 20, refused: 0 }],
    ["losses of two leases and a request under way", { admitted: 27, kills: 2, interrupted: 1 }],
    ["lost requests in usage", { kills: 1, interrupted: 1, usage: { admitted: 35, refused: 2 } }],
  ])("accepts %s", (_, run) => {
    expect(ledgerOf(run)).toEqual([]);
  });

  it.each([
    ["one more than the limit", { admitted: 33 }, "a limit was exceeded"],
    ["one more than the limit, despite a kill", { admitted: 33, kills: 1 }, "a limit was exceeded"],
    ["a refusal of the last request", { admitted: 31 }, "a request was refused too early"],
    ["a refusal before the last one", { admitted: 31, later: 1 }, "a request was refused too early"],
    ["more losses than a kill explains", { admitted: 29, kills: 1 }, "a request was refused too early"],
    ["a refusal with requests left", { left: 1 }, "a request was refused with requests left"],
    ["a forgotten admission", { usage: { admitted: 31 } }, ADMISSIONS],
    ["a forgotten admission at a kill", { kills: 1, usage: { admitted: 31 } }, ADMISSIONS],
    ["an admission counted twice", { usage: { admitted: 33 } }, ADMISSIONS],
    ["more counted than a kill explains", { kills: 1, usage: { admitted: 35 } }, ADMISSIONS],
    ["a forgotten refusal", { usage: { refused: 0 } }, REFUSALS],
    ["a refusal counted twice", { usage: { refused: 2 } }, REFUSALS],
  ])("notices %s", (_, run, kind) => {
    expect(ledgerOf(run)).toEqual([kind]);
  });
});

describe("the records of pets", () => {
  const sent = (name: string) => `{"name":"${NAME_PREFIX}${name}","categoryId":9007199254740993}`;
  const stored = (id: number, name: string) => `{"id":${id},${sent(name).slice(1)}`;
  const created = (id: number, name: string, location = `/v1/pets/${id}`) => ({
    ...answer(201, 1, 0),
    headers: new Headers({ Location: location }),
    body: stored(id, name),
  });
  const other = '{"id":1,"name":"Rex","categoryId":1}';

  /** What the checks find if the list has other pets than "a" and "b", which were acknowledged, and perhaps "c". */
  const found = (list: string[], act: (pets: Pets) => void = () => {}) =>
    kindsOf((problems) => {
      const pets = new Pets(problems);
      pets.acknowledge(sent("a"), created(2, "a"));
      pets.interrupt(sent("b"));
      pets.acknowledge(sent("b"), created(3, "b"));
      pets.interrupt(sent("c"));
      act(pets);
      pets.check([`[${list}]`], 1);
    });
  const list = [other, stored(2, "a"), stored(3, "b")];

  it("accept each acknowledged pet once, and an interrupted one once or never", () => {
    expect(found(list)).toEqual([]);
    expect(found([...list, stored(4, "c")], (pets) => pets.acknowledge(sent("a"), created(2, "a")))).toEqual(
      [],
    );
  });

  it.each([
    ["a lost pet", list.slice(0, 2), "an acknowledged pet is lost"],
    [
      "a rounded number",
      [other, stored(2, "a").replace("993}", "992}"), stored(3, "b")],
      "an acknowledged pet is lost",
    ],
    ["a pet stored twice", [...list, stored(4, "b")], "a pet is stored twice"],
    ["an interrupted pet stored twice", [...list, stored(4, "c"), stored(5, "c")], "a pet is stored twice"],
    ["an id listed twice", [...list, other], "an id is listed twice"],
    ["a pet whose POST was refused", [...list, stored(4, "d")], "a pet is stored whose POST was refused"],
    ["a lost pet of others", list.slice(1), "other pets are lost"],
  ])("notice %s", (_, listed, kind) => {
    expect(found(listed)).toContain(kind);
  });

  it("notice a repeated POST that made another pet, and a response that differs from its request", () => {
    const twice = found([...list, stored(4, "a")], (pets) => pets.acknowledge(sent("a"), created(4, "a")));
    expect(twice).toEqual(["a pet is stored twice"]);
    const differs = "a created pet differs from the request";
    expect(found(list, (pets) => pets.acknowledge(sent("b"), created(2, "a")))).toEqual([differs]);
    expect(found(list, (pets) => pets.acknowledge(sent("a"), created(2, "a", "/v1/pets/3")))).toEqual([
      differs,
    ]);
  });
});

it("memory that grows between the third and the last quarter is noticed", () => {
  const growing = (step: number, samples = 48) =>
    Array.from({ length: samples }, (_, index) => 500 + step * index);
  const found = (megabytes: number[]) => kindsOf((problems) => checkMemory(megabytes, problems));
  expect(found(growing(3))).toEqual(["memory is not stable"]);
  expect(found(growing(2))).toEqual([]);
  // Too short to tell growth from the warm-up.
  expect(found(growing(3, 47))).toEqual([]);
});
