// What release 1.1.0 sends and stores, each with all fields that it can have. It never changes: later releases must read it. A key has
// its access since this release; all else is as before.

import * as before from "./1.0.0.ts";

const RECORD = { ...before.identified.key, access: "read" };

export const { request, noRecord } = before;

export const identified = { ...before.identified, key: RECORD };

export const answer = { ...before.answer, key: RECORD };

export const usage = { ...before.usage, key: RECORD };

export const stored = { ...before.stored, read: { ...before.stored.read, key: RECORD } };
