// A counter in each isolate, exchanged with the others every 5 s, by the rules with which unkey's regions exchange theirs
// (github.com/unkeyed/unkey, internal/services/ratelimit/global.go, commit fc99b6b925): a counter is sent, as an absolute number, once it has
// reached 20 % of the limit or another one of the key was sent; the answer is the sum of the others. A refusal is decided locally.
//
// In a region of unkey, nodes share a counter in Redis within milliseconds, so one isolate here is what a region is there: unkey has as
// many as regions. Its windows slide; here they are those of all designs of the ladder, unless `slides`.
//
// The exchange is a call of an object, which stores what is sent. unkey exchanges all keys at once, so a call is only charged if the
// isolate has had requests of this key since the last one. A Worker can go on for 30 s after a request.

import { startOfWindowMs } from "../../src/limits/windows.ts";
import { Timeline } from "../../test/simulation/timeline.ts";
import { NO_COUNTS } from "./counts.ts";
import { type Limiter, type Setting, START_MS } from "./limiter.ts";
import { Network } from "./network.ts";

const MINUTE_MS = 60_000;
const EXCHANGE_MS = 5_000;
const JITTER = 0.2;
const UTILIZATION_FLOOR = 0.2;
const KEPT_ALIVE_MS = 30_000;

/** What an isolate knows of a minute: its own count, how much of it was sent, the sum of the others, and all of the minute before. */
const unused = (minuteMs: number) => ({ minuteMs, own: 0, sent: 0, others: 0, before: 0 });
const newIsolate = () => ({ minute: unused(0), askedMs: 0, exchangedMs: 0, isExchanging: false });
type Isolate = ReturnType<typeof newIsolate>;

export function syncedCounters({ limit, isolates, random, lostShare }: Setting, slides = false): Limiter {
  const time = new Timeline(START_MS);
  const network = new Network(time, random, lostShare);
  const counts = { ...NO_COUNTS };
  const all = Array.from({ length: isolates }, newIsolate);
  /** By minute, what each isolate has sent. */
  const stored = new Map<number, Map<Isolate, number>>();

  const sumOfOthers = (isolate: Isolate, minuteMs: number, sent: number | undefined) => {
    const known = stored.get(minuteMs) ?? new Map<Isolate, number>();
    stored.set(minuteMs, known);
    if (sent !== undefined) known.set(isolate, sent);
    let sum = 0;
    for (const [each, count] of known) sum += each === isolate ? 0 : count;
    return sum;
  };

  const exchange = async (index: number, isolate: Isolate) => {
    const { minute } = isolate;
    const { minuteMs, own, sent, others } = minute;
    const isSent = own > sent && (others > 0 || own >= Math.ceil(UTILIZATION_FLOOR * limit));
    if (isolate.askedMs > isolate.exchangedMs) counts.objectRequests += 1;
    if (isSent) counts.rowsWritten += 1;
    isolate.exchangedMs = time.nowMs;
    const execute = () => sumOfOthers(isolate, minuteMs, isSent ? own : undefined);
    minute.others = Math.max(others, await network.call(index, execute, isSent));
    if (isSent) minute.sent = own;
  };

  const keepExchanging = async (index: number, isolate: Isolate) => {
    isolate.isExchanging = true;
    while (all[index] === isolate && time.nowMs - isolate.askedMs < KEPT_ALIVE_MS) {
      await time.wait(EXCHANGE_MS * (1 + JITTER * (2 * random.next() - 1)));
      // A failed exchange is made up for by the next one.
      await exchange(index, isolate).catch(() => undefined);
    }
    isolate.isExchanging = false;
  };

  return {
    time,
    counts,
    ask: async (index) => {
      const isolate = all[index] as Isolate;
      const minuteMs = startOfWindowMs(60, time.nowMs);
      const last = isolate.minute;
      if (last.minuteMs !== minuteMs) {
        isolate.minute = unused(minuteMs);
        if (slides && last.minuteMs === minuteMs - MINUTE_MS) isolate.minute.before = last.own + last.others;
      }
      isolate.askedMs = time.nowMs;
      if (!isolate.isExchanging) void keepExchanging(index, isolate);
      const { minute } = isolate;
      const left = 1 - (time.nowMs - minuteMs) / MINUTE_MS;
      const admitted = minute.own + minute.others + Math.floor(minute.before * left) < limit;
      if (admitted) minute.own += 1;
      return { admitted, minuteMs };
    },
    endIsolate: (index) => {
      all[index] = newIsolate();
    },
    crash: () => network.crash(),
  };
}
