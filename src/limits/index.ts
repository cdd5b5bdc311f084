// The door of the limiter: nothing else of this folder is imported from outside. README.md says what the limiter guarantees, and has an example.

export { REQUESTS_PER_MINUTE } from "./address-counter.ts";
export { LimiterUnavailable } from "./errors.ts";
export { availableMs, headersOf, LIMIT_HEADER, left, secondsToReset, tighterWindow } from "./headers.ts";
export type { Caller, Credential, KeyRequest, Recorder } from "./isolate/caller.ts";
export type { KeyObject } from "./isolate/key-calls.ts";
export { type LimiterOptions, type LimitsEnv, limits } from "./middleware.ts";
export { USAGE_EVERY_MS } from "./object/alarm.ts";
export { BAN_GRACE_MS, BAN_MS, banEndMs, MIN_TOLERATED_REFUSALS, TOLERATED_LIMITS } from "./object/bans.ts";
export { limitedObject, type ObjectOptions, type Usage } from "./object/limited-object.ts";
export type { KeyPolicy } from "./policy.ts";
export { DAY_MS, type Day, KEY_MS, MAX_USAGE_AGE_MS, MAX_WAIT_MS } from "./protocol.ts";
export {
  DAYS_KEPT,
  DECIDED_BY,
  type Decision,
  type Lengths,
  type Limits,
  MAX_LIMIT,
  type Outlook,
  remaining,
  resetMs,
  type Window,
  type Windows,
} from "./windows.ts";
