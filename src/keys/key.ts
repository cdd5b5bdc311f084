// A key, and what follows from it for a secret. The keys database is its source, the key's object hands it to the
// isolates. Times are Unix time in milliseconds; null: never.

import { every, NUMBER, named, nullable, or, type Reader, TEXT, whole } from "../lib/tolerant.ts";
import type { KeyPolicy } from "../limits/index.ts";
import { type Limits, type Plan, SHORTEST, WINDOWS } from "./plans.ts";

/** What a key may do; `write` includes reading. */
export const ACCESSES = ["read", "write"] as const;
export type Access = (typeof ACCESSES)[number];

/** A key. Its id is public, and names its object. */
export interface KeyFields {
  id: string;
  plan: Plan;
  limits: Limits;
  access: Access;
  expiresAtMs: number | null;
  revokedAtMs: number | null;
  suspendedAtMs: number | null;
  /** An operator has lifted the bans that end by then; 0 for none. */
  bansLiftedUntilMs: number;
}

/** A key with the SHA-256 (hexadecimal) of its secrets, the current one first. A replaced secret is valid until its grace ends. */
export interface Key extends KeyFields {
  secrets: readonly { hash: string; goodUntilMs: number | null }[];
}

/** How many replaced secrets a key has at most. More: longer keys in every answer; fewer: rotations that end a grace early. */
export const MAX_REPLACED_SECRETS = 20;

/** What ends a key, or interrupts it. */
type Ends = Pick<KeyFields, "revokedAtMs" | "suspendedAtMs" | "expiresAtMs">;

type State = "active" | "suspended" | "expired" | "revoked";

/** What is final comes first, then what an operator has decided. */
export function stateOf({ revokedAtMs, suspendedAtMs, expiresAtMs }: Ends, nowMs: number): State {
  if (revokedAtMs !== null) return "revoked";
  if (suspendedAtMs !== null) return "suspended";
  return expiresAtMs !== null && expiresAtMs <= nowMs ? "expired" : "active";
}

/** Why a secret is not valid. */
export type SecretProblem = "unknown" | "replaced" | Exclude<State, "active">;

/** Undefined for a valid secret. */
export function problemOf(
  key: Ends & Pick<Key, "secrets">,
  hash: string,
  nowMs: number,
): SecretProblem | undefined {
  const secret = key.secrets.find((each) => each.hash === hash);
  if (secret === undefined) return "unknown";
  const state = stateOf(key, nowMs);
  if (state !== "active") return state;
  return secret.goodUntilMs !== null && secret.goodUntilMs <= nowMs ? "replaced" : undefined;
}

type Secret = Key["secrets"][number];

/** The other release may have other windows. */
const readLimits: Reader<Limits | undefined> = (...from) => {
  const limits = named(NUMBER)(...from);
  return limits[SHORTEST] === undefined ? undefined : (limits as Limits);
};

export const KEY_POLICY: KeyPolicy<Key, SecretProblem> = {
  windows: WINDOWS,
  limitsOf: ({ limits }) => limits,
  problemOf,
  bansLiftedUntilMs: ({ bansLiftedUntilMs }) => bansLiftedUntilMs,
  // One that lacks something could make a revoked key valid, so it is absent: then the primary is asked.
  readKey: whole<Key, Exclude<keyof Key, "access">>(
    {
      id: TEXT,
      // A later release can have a plan that this one does not know.
      plan: TEXT as Reader<Plan | undefined>,
      limits: readLimits,
      expiresAtMs: nullable(NUMBER),
      revokedAtMs: nullable(NUMBER),
      suspendedAtMs: nullable(NUMBER),
      bansLiftedUntilMs: NUMBER,
      secrets: every(whole<Secret>({ hash: TEXT, goodUntilMs: nullable(NUMBER) }, {})),
    },
    // The release before had none: its keys may write. What a later release may have instead is treated as `read` (access.ts).
    { access: or(TEXT as Reader<Access | undefined>, "write") },
  ),
};
