// The checks of counts and memory in the proofs soak and crash: each notices its violation, and nothing else is one.

import { expect, it } from "vitest";
import { HEADER } from "../../src/http/header-names.ts";
import { PLANS } from "../../src/keys/plans.ts";
import { PROFILES } from "../stress/load/clients.ts";
import { type Expect, Ledger } from "../stress/load/ledger.ts";
import { checkMemory } from "../stress/load/memory.ts";

const START_MS = Date.parse("2026-11-20T12:34:00Z");
const LIMITS = { minute: 32, day: 1_000 };

/** The kinds of failed checks. */
function kindsOf(check: (expect: Expect) => void): string[] {
  const kinds: string[] = [];
  check((holds, kind) => void (holds || kinds.push(kind)));
  return kinds;
}

/** The response, `ms` after the minute's start, to a request at the same time. */
function answer(status: number, left: number, ms: number) {
  const seconds = 60 - Math.floor(ms / 1000);
  const headers = new Headers({
    RateLimit: `"minute";r=${left};t=${seconds}, "day";r=${left + 500};t=${11 * 3600 + 25 * 60 + seconds}`,
    [HEADER.rateLimitReset]: `${START_MS / 1000 + 60}`,
  });
  return { status, headers, body: "", sentAtMs: START_MS + ms, cameAtMs: START_MS + ms };
}

const EXACT = { admitted: 32, left: 0, refused: 1, later: 0, kills: 0, interrupted: 0, usage: {} };

const EXCEEDED = ["a limit was exceeded"];
const EARLY = ["a request was refused too early"];
const ADMISSIONS = ["usage shows a wrong number of admissions"];
const REFUSALS = ["usage shows a wrong number of refusals"];

it.each<[what: string, run: Partial<typeof EXACT>, found: string[]]>([
  ["exactly the limit", {}, []],
  ["fewer requests than the limit", { admitted: 20, refused: 0 }, []],
  ["losses of two leases and a request under way", { admitted: 27, kills: 2, interrupted: 1 }, []],
  ["lost requests in usage", { kills: 1, interrupted: 1, usage: { admitted: 35, refused: 2 } }, []],
  ["one more than the limit", { admitted: 33 }, EXCEEDED],
  ["one more than the limit, despite a kill", { admitted: 33, kills: 1 }, EXCEEDED],
  ["a refusal of the last request", { admitted: 31 }, EARLY],
  ["a refusal before the last one", { admitted: 31, later: 1 }, EARLY],
  ["more losses than a kill explains", { admitted: 15, kills: 1 }, EARLY],
  ["a refusal with requests left", { left: 1 }, ["a request was refused with requests left"]],
  ["a forgotten admission", { usage: { admitted: 31 } }, ADMISSIONS],
  ["a forgotten admission at a kill", { kills: 1, usage: { admitted: 31 } }, ADMISSIONS],
  ["an admission counted twice", { usage: { admitted: 33 } }, ADMISSIONS],
  ["more counted than a kill explains", { kills: 1, usage: { admitted: 49 } }, ADMISSIONS],
  ["a forgotten refusal", { usage: { refused: 0 } }, REFUSALS],
  ["an unreported refusal at a kill", { kills: 1, usage: { refused: 0 } }, []],
  ["a refusal counted twice", { usage: { refused: 2 } }, REFUSALS],
])("in the ledger of a client, %s: %j finds %j", (_, run, found) => {
  // One admission a millisecond, then refusals and interruptions, and later admissions.
  const { admitted, left, refused, later, kills, interrupted, usage } = { ...EXACT, ...run };
  const killedMs = Array.from({ length: kills }, () => START_MS + 500);
  const day = { date: "2026-11-20", admitted: admitted + later, refused, ...usage };
  const kinds = kindsOf((expect) => {
    const ledger = new Ledger(LIMITS, killedMs, expect);
    for (let sent = 0; sent < admitted; sent += 1)
      ledger.record(answer(200, Math.max(0, LIMITS.minute - sent - 1), sent));
    for (let sent = 0; sent < refused; sent += 1) ledger.record(answer(429, left, 600));
    for (let sent = 0; sent < later; sent += 1) ledger.record(answer(200, 0, 700));
    for (let sent = 0; sent < interrupted; sent += 1) ledger.interrupt();
    ledger.check();
    ledger.checkUsage([day]);
  });
  expect(kinds).toEqual(found);
});

it("memory that grows between the third and the last quarter is noticed", () => {
  const found = (step: number, samples = 48) =>
    kindsOf((expect) =>
      checkMemory(
        Array.from({ length: samples }, (_, index) => 500 + step * index),
        expect,
      ),
    );
  expect(found(3)).toEqual(["memory is not stable"]);
  expect(found(2)).toEqual([]);
  // Too short to tell growth from the warm-up.
  expect(found(3, 47)).toEqual([]);
});

it("the clients have keys on all plans", () => {
  expect(new Set(PROFILES.map(({ plan }) => plan))).toEqual(new Set(PLANS));
});
