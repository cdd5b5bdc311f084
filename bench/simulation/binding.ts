// Cloudflare's rate-limiting binding, as its documentation describes it: a limit "local to the Cloudflare location", with counters "cached on
// the same machine that your Worker runs in, and updated asynchronously in the background by communicating with a backing store that is
// within the same Cloudflare location" (developers.cloudflare.com/workers/runtime-apis/bindings/rate-limit/).
//
// What it does not say, in its favour: after UPDATE_MS all isolates of a location know of an admission, its own isolate knows at once, and
// no counter is ever lost. Windows are aligned and refusals not counted, as in Miniflare (workers-sdk, ratelimit-object.worker.ts).

import { startOfWindowMs } from "../../src/limits/windows.ts";
import { Timeline } from "../../test/simulation/timeline.ts";
import { NO_COUNTS } from "./counts.ts";
import { type Limiter, type Setting, START_MS } from "./limiter.ts";
import { locationOf as regionOf } from "./network.ts";

/** "Very quickly, but not immediately". */
const UPDATE_MS = 100;

export function binding({ limit }: Setting, updateMs = UPDATE_MS, locationOf = regionOf): Limiter {
  const time = new Timeline(START_MS);
  /** Admissions by minute: in each location those that all its isolates know, and in each isolate those that only it knows. */
  const known = new Map<string, number>();
  const change = (name: string, by: number) => known.set(name, (known.get(name) ?? 0) + by);
  return {
    time,
    counts: NO_COUNTS,
    ask: async (isolate) => {
      const minuteMs = startOfWindowMs(60, time.nowMs);
      const location = `location ${locationOf(isolate)}, ${minuteMs}`;
      const own = `isolate ${isolate}, ${minuteMs}`;
      const admitted = (known.get(location) ?? 0) + (known.get(own) ?? 0) < limit;
      if (!admitted) return { admitted, minuteMs };
      change(own, 1);
      time.after(updateMs, () => {
        change(own, -1);
        change(location, 1);
      });
      return { admitted, minuteMs };
    },
    endIsolate: () => {},
    crash: () => {},
  };
}
