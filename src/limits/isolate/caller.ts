// Who sends a request: what the request has, and what the isolate makes of it. Types only.

import type { Decision } from "../windows.ts";

/** A secret: its SHA-256, and the id of its key. */
export type Credential = { id: string; hash: string };

/** A valid key, or why there is none. `keyId` is also set for a key that is no longer valid. */
export type Caller<Key, Problem extends string> =
  | { key: Key; keyId: string; problem?: never; refusal?: never }
  | {
      key?: never;
      keyId?: string;
      problem: "missing" | "unknown" | Problem;
      /** Set if nobody was asked about the secret, because its address or network has sent too many unknown ones. */
      refusal?: Decision;
    };

/** Records what a request waits for. */
export interface Recorder {
  /** The request has been decided now, in one of the ways of DECIDED_BY. `hasKey`: its key is valid. */
  decided(by: string, hasKey: boolean): void;
  /** A hop that began at `sentMs` (Unix time) has ended now. `loadMs`: how long the object has waited for the key meanwhile. */
  hop(to: "object" | "keys", sentMs: number, loadMs?: number): void;
}

/** A request with a secret. */
export interface KeyRequest {
  credential: Credential;
  /** Unix time, by this isolate's clock. */
  arrivedMs: number;
  /** See LookupThrottle. */
  buckets(): readonly string[];
  /** Records the hops that it waits for. */
  timing?: Recorder | undefined;
  /** Called with the reason if the object can't be reached. */
  onObjectFailure(error: unknown): void;
}
