// The key of a key, and a call of an isolate without requests.

import type { Key } from "../../src/keys/key.ts";
import type { Limits, WindowName } from "../../src/keys/plans.ts";
import type { Window, Windows } from "../../src/limits/windows.ts";

export const KEY_ID = "key_000000000000";

/** The key of a valid key whose secrets have these hashes. */
export const recordOf = (hashes: readonly string[], limits: Limits, id = KEY_ID): Key => ({
  id,
  plan: "enterprise",
  limits,
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
