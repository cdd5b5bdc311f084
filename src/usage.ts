// GET /v1/usage: how a key stands. It costs nothing and works while the key is limited or banned, so it stands before
// the rate limit; what keeps it cheap is that the key's object is asked at most once a second.

import { waitUntil } from "cloudflare:workers";
import { type Context, Hono } from "hono";
import { BoundedMap } from "./bounded-map.ts";
import type { AppEnv } from "./env.ts";
import { serviceUnavailable } from "./errors.ts";
import type { Key } from "./keys/store.ts";
import { noteFailure } from "./log.ts";
import { askLimiter, LIMITER_DEADLINE_MS, remember } from "./rate-limit/key-meters.ts";
import { DAY_MS, type Usage } from "./rate-limit/limiter.ts";
import { DAYS_KEPT } from "./rate-limit/meter.ts";
import { type Decision, remaining, resetMs, type Window, type WindowName } from "./rate-limit/window.ts";
import type { UsageBody, UsageDay, UsageWindow } from "./usage-body.ts";

/** How long an answer of the object is shown. */
const SHOWN_MS = 1_000;

/** Together about 5 MB of the 128 that an isolate has. */
const MAX_ANSWERS = 1_000;

/** How often who waits for another request's answer looks for it, and for how long: as long as that may take. */
const LOOK_MS = 10;
const MAX_LOOKS = (2 * LIMITER_DEADLINE_MS) / LOOK_MS;

/** What the object was asked at a time, and once that is over, its answer or why there is none. */
interface Answer {
  askedAtMs: number;
  isOver: boolean;
  usage?: Usage;
  error?: unknown;
}

const answers = new BoundedMap<string, Answer>(MAX_ANSWERS);

export const usage = new Hono<AppEnv>().get("/", async (c, next) => {
  const key = c.get("caller")?.key;
  // Without a valid key this is a request like any other: counted by address, and refused.
  if (key === undefined) return next();

  const { standing, days } = await currentUsage(c, key);
  const { bannedUntilMs, windows } = standing;
  // The headers tell of the ban too, if there is one, but this request was not refused.
  c.set("decision", { ...standing, admitted: true });
  const described = Object.fromEntries(windows.map((window) => [window.name, describe(window)]));
  const body: UsageBody = {
    plan: key.plan,
    ...(described as Pick<UsageBody, WindowName>),
    bannedUntil: bannedUntilMs === undefined ? null : Math.ceil(bannedUntilMs / 1000),
    days: everyDay(days, standing),
  };
  return c.json(body, 200, { "Cache-Control": "no-store" });
});

/** What the object says, or said within the last second. Throws `service_unavailable`. */
async function currentUsage(c: Context<AppEnv>, key: Key): Promise<Usage> {
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
  // A request must not wait for a promise of another one: the runtime forbids it. It may look at what the other has left.
  for (let look = 0; !answer.isOver && look < MAX_LOOKS; look += 1) await scheduler.wait(LOOK_MS);
  if (answer.usage !== undefined) return answer.usage;
  noteFailure(c, "limiter_unavailable", answer.error ?? "whoever asked has left");
  throw serviceUnavailable("the counters of this key can't be reached", c.var.requestId);
}

/** Asks the object; it answers, or fails, within a deadline. */
async function ask(limiters: Env["RATE_LIMITER"], key: Key, answer: Answer): Promise<void> {
  try {
    const usage = await askLimiter(limiters, (limiter) => limiter.usage(key.limits), key.id);
    answer.usage = { ...usage, standing: remember(key.id, usage.standing) };
  } catch (error) {
    answer.error = error;
  } finally {
    answer.isOver = true;
  }
}

function describe(window: Window): UsageWindow {
  const { limit, used } = window;
  return { limit, used, remaining: remaining(window), reset: resetMs(window) / 1000 };
}

/** The last 30 UTC days up to that of the decision, the oldest first, those without a request too. */
function everyDay(days: Usage["days"], { nowMs, windows }: Decision): UsageDay[] {
  const todayMs = nowMs - (nowMs % DAY_MS);
  return Array.from({ length: DAYS_KEPT }, (_, index) => {
    const startMs = todayMs - (DAYS_KEPT - 1 - index) * DAY_MS;
    const { admitted = 0, refused = 0 } = days.find((day) => day.startMs === startMs) ?? {};
    // What is leased to this isolate is not admitted yet: the window knows that.
    const { used = admitted } = windows.find((each) => each.name === "day" && each.startMs === startMs) ?? {};
    return { date: new Date(startMs).toISOString().slice(0, 10), admitted: used, refused };
  });
}
