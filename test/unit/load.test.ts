// The checks of counts in the proofs soak and crash: each notices its violation, and nothing else is one.

import { expect, it } from "vitest";
import { HEADER } from "../../src/http/header-names.ts";
import { Ledger } from "../stress/load/ledger.ts";
import { limitsWith, refusedBy } from "../support/key-record.ts";

const START_MS = Date.parse("2026-11-20T12:34:00Z");
const LIMIT = 32;

/** A response, without delay. */
function answer(status: number, left: number) {
  const headers = new Headers({
    [HEADER.rateLimitLimit]: `${LIMIT}`,
    [HEADER.rateLimitRemaining]: `${left}`,
    [HEADER.rateLimitReset]: `${START_MS / 1000 + 60}`,
  });
  return { status, headers: Object.fromEntries(headers), durationMs: 0 };
}

const SENT = { admitted: LIMIT, left: 0, refused: 1, later: 0, fromMs: 0 };
const EXACT = { ...SENT, kills: 0, interrupted: 0, usage: {} };

const EXCEEDED = /a limit was exceeded in the minute/;
const EARLY = /a request was refused too early in the minute/;
const ADMISSIONS = /usage shows .* admissions/;
const REFUSALS = /usage shows .* refusals/;

it.each<[what: string, run: Partial<typeof EXACT>, problem?: RegExp]>([
  ["exactly the limit", {}],
  ["losses of a lease and a request under way", { admitted: 22, kills: 1, interrupted: 1 }],
  [
    "lost requests in usage",
    { kills: 1, interrupted: 1, usage: { admitted: 42, refusedBy: refusedBy({ minute: 2 }) } },
  ],
  ["one more than the limit", { admitted: 33 }, EXCEEDED],
  ["a refusal before the last one", { admitted: 31, later: 1 }, EARLY],
  ["more losses than a kill explains", { admitted: 22, kills: 1 }, EARLY],
  ["a refusal with requests left", { left: 1 }, /a refusal leaves requests/],
  ["a response about an earlier window", { fromMs: 60_000 }, /a response is about another minute/],
  ["a response about a later window", { fromMs: -1_000 }, /a response is about another minute/],
  ["a forgotten admission", { usage: { admitted: 31 } }, ADMISSIONS],
  ["an admission counted twice", { usage: { admitted: 33 } }, ADMISSIONS],
  ["more counted than a kill explains", { kills: 1, usage: { admitted: 42 } }, ADMISSIONS],
  ["a forgotten refusal", { usage: { refusedBy: refusedBy({}) } }, REFUSALS],
  ["an unreported refusal at a kill", { kills: 1, usage: { refusedBy: refusedBy({}) } }],
  ["a refusal counted twice", { usage: { refusedBy: refusedBy({ minute: 2 }) } }, REFUSALS],
])("in the ledger of a client, %s: %j finds %s", (_, run, problem) => {
  // One admission a millisecond, then refusals, and later admissions.
  const { admitted, left, refused, later, fromMs, kills, interrupted, usage } = { ...EXACT, ...run };
  const ledger = Object.assign(new Ledger(limitsWith({ minute: LIMIT, day: 1_000 })), { kills, interrupted });
  const record = (status: number, remaining: number, ms: number) =>
    ledger.record(answer(status, remaining), START_MS + ms);
  for (let sent = 0; sent < admitted; sent += 1) record(200, LIMIT - sent - 1, fromMs + sent);
  for (let sent = 0; sent < refused; sent += 1) record(429, left, fromMs + 600);
  for (let sent = 0; sent < later; sent += 1) record(200, 0, 700);
  ledger.checkWindows();
  const day = { date: "2026-11-20", refusedBy: refusedBy({ minute: refused }), busiest: {} };
  ledger.checkUsage([{ ...day, admitted: admitted + later, ...usage }]);
  const one = problem && [expect.stringMatching(problem)];
  expect([...new Set(ledger.problems)]).toEqual(one ?? []);
});
