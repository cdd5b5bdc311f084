// What the limiters of the ladder have in common: what each of them gets, and what the ladder sees of it.

import type { Random } from "../../test/simulation/random.ts";
import type { Timeline } from "../../test/simulation/timeline.ts";
import type { Counts } from "./counts.ts";

/** When each run begins (Unix time): at the start of a UTC minute. */
export const START_MS = Date.UTC(2026, 10, 26, 12, 0);

export interface Setting {
  /** Requests per UTC minute, of one key. */
  limit: number;
  /** An isolate is an index below this number. */
  isolates: number;
  /** Of the network and of the limiter. */
  random: Random;
  /** See Network. */
  lostShare: number;
}

/** `minuteMs`: the beginning of the minute in which the limiter has counted the request (Unix time). */
export interface Outcome {
  admitted: boolean;
  minuteMs: number;
}

export interface Limiter {
  readonly time: Timeline;
  /** What Cloudflare charges for, except the requests of clients. */
  readonly counts: Counts;
  /** Decides a request that arrives in an isolate. Rejects if it can't. */
  ask(isolate: number): Promise<Outcome>;
  /** Replaces an isolate by one that knows nothing. */
  endIsolate(isolate: number): void;
  /** Restarts what the isolates share. */
  crash(): void;
  /** Throws if the limiter has broken a rule of its own. */
  check?(): void;
}

export type NewLimiter = (setting: Setting) => Limiter;
