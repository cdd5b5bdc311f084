// One Durable Object a key, which is asked for each request and keeps the count of the minute, in memory or stored. "Build a rate limiter" in
// Cloudflare's documentation keeps the time of the next allowed request in memory, and so does cloudflare/workers-chat-demo (src/chat.mjs),
// whose clients go on without waiting for the answer. Here it is a count, so that all designs of the ladder have the same windows. A failed
// call is repeated once with a new stub, as in the demo.
//
// An object without a timer or a socket is removed from memory "after 10 seconds of inactivity"
// (developers.cloudflare.com/durable-objects/concepts/durable-object-lifecycle/), and with it a count that is not stored.

import { startOfWindowMs } from "../../src/limits/windows.ts";
import { Timeline } from "../../test/simulation/timeline.ts";
import { NO_COUNTS } from "./counts.ts";
import { type Limiter, type Setting, START_MS } from "./limiter.ts";
import { IDLE_MS, Network } from "./network.ts";

export const memoryObject = (setting: Setting) => object(setting, false);
export const storedObject = (setting: Setting) => object(setting, true);

function object({ limit, random, lostShare }: Setting, isStored: boolean): Limiter {
  const time = new Timeline(START_MS);
  const network = new Network(time, random, lostShare);
  const counts = { ...NO_COUNTS };
  let [count, calledMs] = [{ minuteMs: 0, used: 0 }, 0];
  const restart = () => {
    if (isStored) counts.rowsRead += 1;
    else count = { minuteMs: 0, used: 0 };
  };
  const decide = () => {
    counts.objectRequests += 1;
    if (time.nowMs - calledMs >= IDLE_MS) restart();
    calledMs = time.nowMs;
    const minuteMs = startOfWindowMs(60, time.nowMs);
    if (count.minuteMs !== minuteMs) count = { minuteMs, used: 0 };
    const admitted = count.used < limit;
    if (!admitted) return { admitted, minuteMs };
    count.used += 1;
    if (isStored) counts.rowsWritten += 1;
    return { admitted, minuteMs };
  };
  const call = (isolate: number) => network.call(isolate, decide, isStored);
  return {
    time,
    counts,
    ask: (isolate) => call(isolate).catch(() => call(isolate)),
    endIsolate: () => {},
    crash: () => {
      network.crash();
      restart();
    },
  };
}
