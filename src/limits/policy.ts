// What a service says of its keys. Isolates and objects must be given the same. `Key` is what the service stores of a key: an object
// that JSON can hold.

import { OBJECT, type Reader } from "../lib/tolerant.ts";
import { type Lengths, type Limits, MAX_LIMIT } from "./windows.ts";

export interface KeyPolicy<Key extends object, Problem extends string = never> {
  /**
   * The windows of all keys, the shortest first. It lasts 10 s at least and divides a day; each other one is a multiple of the one before,
   * up to 30 days. A name, which headers show, is a lower-case letter, then such letters, digits, _ and -.
   */
  windows: Lengths;
  /**
   * One limit at least. A window without one has MAX_LIMIT, as one with more; a fraction is rounded down, and what is no number above 0 admits
   * nothing. What it throws is a failure to read the key.
   */
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

/** The limit of each window. Throws if the key has none. */
export function limitsOf<Key extends object>(policy: KeyPolicy<Key, string>, key: Key): Limits {
  const given = policy.limitsOf(key);
  const names = Object.keys(policy.windows);
  if (names.every((name) => given[name] === undefined)) throw new RangeError("the key has no limit");
  const limits: Record<string, number> = {};
  for (const name of names) {
    const { [name]: limit = MAX_LIMIT } = given;
    limits[name] = limit > 0 ? Math.min(Math.floor(limit), MAX_LIMIT) : 0;
  }
  return limits;
}

export function termsOf<Key extends object>(policy: KeyPolicy<Key, string>, key: Key): Terms {
  return { limits: limitsOf(policy, key), bansLiftedUntilMs: policy.bansLiftedUntilMs?.(key) ?? 0 };
}

/** Reads a key from its source; null if it does not exist. Throws if it has no limit. */
export async function loadKey<Key extends object>(
  policy: KeyPolicy<Key, string>,
  load: (id: string) => Promise<Key | null>,
  id: string,
): Promise<Key | null> {
  const key = await load(id);
  if (key !== null) termsOf(policy, key);
  return key;
}

export function readKeyBy<Key extends object>(policy: KeyPolicy<Key, string>): Reader<Key | undefined> {
  const readKey = policy.readKey ?? (OBJECT as Reader<Key | undefined>);
  return (value, name, refuse) => {
    const key = readKey(value, name, refuse);
    try {
      return key && termsOf(policy, key) && key;
    } catch (error) {
      refuse(`${name} has no limits: ${error}`);
      return undefined;
    }
  };
}

export function hasSecret<Key extends object>(
  policy: KeyPolicy<Key, string>,
  key: Key | null | undefined,
  hash: string,
): key is Key {
  return key !== null && key !== undefined && policy.problemOf(key, hash, 0) !== "unknown";
}
