// What a service says of its keys. Isolates and objects must be given the same. `Key` is what the service stores of a key: a value that a
// structured clone copies.

import { OBJECT, type Reader } from "../lib/tolerant.ts";
import type { Lengths, Limits } from "./windows.ts";

export interface KeyPolicy<Key extends object, Problem extends string = never> {
  /** The windows of all keys, the shortest first: each lasts for a multiple of it, and it for 10 s at least. Names are as in headers. */
  windows: Lengths;
  limitsOf(key: Key): Limits;
  /** Why the secret with this hash is not valid at `nowMs` (Unix time): "unknown", at any time, if the key lacks it; undefined if it is. */
  problemOf(key: Key, hash: string, nowMs: number): Problem | "unknown" | undefined;
  /** An operator has lifted the bans that end by then (Unix time); by default 0, for none. */
  bansLiftedUntilMs?(key: Key): number;
  /** Reads a key that another release has sent or stored; undefined if it lacks something. By default each object is a key. */
  readKey?: Reader<Key | undefined>;
}

/** What of a key changes counts. */
export interface Terms {
  limits: Limits;
  bansLiftedUntilMs: number;
}

export function termsOf<Key extends object>(policy: KeyPolicy<Key, string>, key: Key): Terms {
  return { limits: policy.limitsOf(key), bansLiftedUntilMs: policy.bansLiftedUntilMs?.(key) ?? 0 };
}

export function readKeyBy<Key extends object>(policy: KeyPolicy<Key, string>): Reader<Key | undefined> {
  return policy.readKey ?? (OBJECT as Reader<Key | undefined>);
}

export function hasSecret<Key extends object>(
  policy: KeyPolicy<Key, string>,
  key: Key | null | undefined,
  hash: string,
): key is Key {
  return key !== null && key !== undefined && policy.problemOf(key, hash, 0) !== "unknown";
}
