// A key of ours, its limits, and a call of an isolate without requests.

import type { Key } from "../../src/keys/key.ts";
import { forEachWindow, type Limits, type WindowName } from "../../src/keys/plans.ts";
import { type Limits as AnyLimits, MAX_LIMIT, type Window, type Windows } from "../../src/limits/windows.ts";

export const KEY_ID = "key_000000000000";

/** Limits of these windows, and of the others none that a test reaches. */
export const limitsWith = (some: Partial<Limits>): Limits => forEachWindow((name) => some[name] ?? MAX_LIMIT);

/** Refusals by these windows, and none by the others. */
export const refusedBy = (some: Partial<Limits>): Limits => forEachWindow((name) => some[name] ?? 0);

/** A valid key whose secrets have these hashes. Only these windows have limits. */
export const keyOf = (hashes: readonly string[], limits: AnyLimits, id = KEY_ID): Key => ({
  id,
  plan: "enterprise",
  limits: limits as Limits,
  access: "write",
  expiresAtMs: null,
  revokedAtMs: null,
  suspendedAtMs: null,
  bansLiftedUntilMs: 0,
  secrets: hashes.map((hash) => ({ hash, goodUntilMs: null })),
});

export const NO_REQUESTS = {
  requests: 0,
  revision: 0,
  recent: 0,
  wantsLease: false,
  lease: null,
  decisions: [],
};

/** The windows of a key of ours. */
export const ours = (windows: Windows) => windows as Record<WindowName, Window>;
