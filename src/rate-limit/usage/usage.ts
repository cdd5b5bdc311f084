// GET /v1/usage: how a key stands. It costs nothing and works while the key is limited or banned, so it stands before
// the rate limit; what keeps it cheap is that the key's object is asked at most once a second.

import { waitUntil } from "cloudflare:workers";
import { type Context, Hono } from "hono";
import type { AppEnv } from "../../env.ts";
import { serviceUnavailable } from "../../http/errors.ts";
import { noteFailure } from "../../http/log.ts";
import type { Key } from "../../keys/store.ts";
import { BoundedMap } from "../../lib/bounded-map.ts";
import { poll } from "../../lib/poll.ts";
import { MAX_CALL_MS } from "../isolate/call-object.ts";
import { usageOf } from "../isolate/limiter-clients.ts";
import { DAY_MS, DAYS_KEPT } from "../object/quota.ts";
import type { DayTotals } from "../protocol.ts";
import { type Decision, type KeyWindows, remaining, resetMs, type WindowName } from "../windows.ts";
import type { UsageBody, UsageDay, UsageWindow } from "./usage-body.ts";

/** How long an answer of the object is shown. */
const SHOWN_MS = 1_000;

/** Together about 5 MB of the 128 that an isolate has. */
const MAX_ANSWERS = 1_000;

/** The windows and the ban of a key, and its earlier days. */
interface Standing {
  decision: Decision<KeyWindows>;
  pastDays: readonly DayTotals[];
}

/** What the object was asked at a time, and once that is over, its answer or why there is none. */
interface Answer {
  askedAtMs: number;
  isOver: boolean;
  usage?: Standing;
  error?: unknown;
}

const answers = new BoundedMap<string, Answer>(MAX_ANSWERS);

export const usage = new Hono<AppEnv>().get("/", async (c, next) => {
  const key = c.get("caller")?.key;
  // Without a valid key this is a request like any other: counted by address, and refused.
  if (key === undefined) return next();

  const { decision, pastDays } = await currentUsage(c, key);
  const { bannedUntilMs, windows } = decision;
  // The headers tell of the ban too, if there is one, but this request was not refused.
  c.set("decision", { ...decision, admitted: true });
  const body: UsageBody = {
    plan: key.plan,
    minute: describe(windows, "minute"),
    day: describe(windows, "day"),
    bannedUntil: bannedUntilMs === undefined ? null : bannedUntilMs / 1000,
    days: everyDay(pastDays, windows),
  };
  return c.json(body, 200, { "Cache-Control": "no-store" });
});

/** What the object says, or said within the last second. Throws `service_unavailable`. */
async function currentUsage(c: Context<AppEnv>, key: Key): Promise<Standing> {
  // Not when the request arrived: it may have waited for its key.
  const nowMs = Date.now();
  let answer = answers.get(key.id);
  if (answer === undefined || Math.abs(nowMs - answer.askedAtMs) >= SHOWN_MS) {
    answer = { askedAtMs: nowMs, isOver: false };
    answers.set(key.id, answer);
    const asking = ask(c.env.RATE_LIMITER, key, answer);
    // Others wait for it, so it has to go on when this request's client leaves.
    waitUntil(asking);
    await asking;
  }
  const awaited = answer;
  await poll(() => awaited.isOver, MAX_CALL_MS);
  if (answer.usage !== undefined) return answer.usage;
  noteFailure(c, "limiter_unavailable", answer.error ?? "whoever asked has left");
  throw serviceUnavailable("the counters of this key can't be reached", c.var.requestId);
}

/** Asks the object; it answers, or fails, within a deadline. */
async function ask(limiters: Env["RATE_LIMITER"], key: Key, answer: Answer): Promise<void> {
  try {
    answer.usage = await usageOf(limiters, key);
  } catch (error) {
    answer.error = error;
  } finally {
    answer.isOver = true;
  }
}

function describe(windows: KeyWindows, name: WindowName): UsageWindow {
  const window = windows[name];
  const { limit, used } = window;
  return { limit, used, remaining: remaining(window), reset: resetMs(window, name) / 1000 };
}

/** The last 30 UTC days up to that of the windows, oldest first, also those without a request. */
function everyDay(pastDays: readonly DayTotals[], { day }: KeyWindows): UsageDay[] {
  const today = { startMs: day.startMs, admitted: day.used, refused: day.refused };
  return Array.from({ length: DAYS_KEPT }, (_, index) => {
    const startMs = day.startMs - (DAYS_KEPT - 1 - index) * DAY_MS;
    const { admitted = 0, refused = 0 } = [...pastDays, today].find((each) => each.startMs === startMs) ?? {};
    return { date: new Date(startMs).toISOString().slice(0, 10), admitted, refused };
  });
}
