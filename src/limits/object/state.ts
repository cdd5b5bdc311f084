// What an object stores, as one value, and how it reads what another release may have stored.

import { formatDate } from "../../lib/rfc3339.ts";
import {
  ANYTHING,
  byName,
  fields,
  list,
  NUMBER,
  named,
  nullable,
  or,
  type Refuse,
  TEXT,
  TIME,
  whole,
} from "../../lib/tolerant.ts";
import { type KeyPolicy, limitsOf, readKeyBy } from "../policy.ts";
import { DAY_MS } from "../protocol.ts";
import { AMOUNT, readDay } from "../readers.ts";
import {
  type Count,
  type Counts,
  type Lengths,
  type Limits,
  MAX_LIMIT,
  startOfWindowMs,
  unused,
} from "../windows.ts";
import { NEVER, NOTHING_UNWRITTEN, type Unwritten } from "./alarm.ts";
import type { ReadKey } from "./key-reader.ts";
import { type GrantedLease, type Isolate, type Quota, unusedQuota } from "./quota.ts";
import type { Peak, Totals } from "./totals.ts";

/** The name under which it is stored, in all releases. */
export const STATE_KEY = "state";

/** Grows when a field is added, so that a later release can tell which fields this one did not have. */
const VERSION = 1;

/** What the object has in memory: the counts, and what the alarm has to write. */
export type Memory = { quota: Quota; unwritten: Unwritten };

/** What is stored: that, the key's id, and the key as it was last read. */
export interface State<Key> extends Memory {
  version: number;
  keyId: string | undefined;
  read: ReadKey<Key> | undefined;
}

export const NOTHING_STORED = {
  version: VERSION,
  keyId: undefined,
  read: undefined,
  unwritten: NOTHING_UNWRITTEN,
};

const readCount = whole<Count>({ seconds: NUMBER, startMs: NUMBER, used: NUMBER }, {});

/** Without one of them, the lease stays charged, and nobody can credit it. */
const readLease = whole<GrantedLease>(
  { id: NUMBER, size: NUMBER, used: NUMBER, grantedMs: NUMBER, durationMs: NUMBER, renewedMs: NUMBER },
  {},
);

const readQuota = fields<Quota>({
  revision: AMOUNT,
  // Some may be missing.
  counts: named(readCount),
  refusals: fields<Quota["refusals"]>({ firstMs: AMOUNT, late: AMOUNT, maxLimit: AMOUNT }),
  unleasedUntilMs: AMOUNT,
  bannedUntilMs: AMOUNT,
  reported: AMOUNT,
  isolates: byName(
    fields<Isolate>({
      number: AMOUNT,
      admitted: AMOUNT,
      refusedBy: named(NUMBER),
      recent: AMOUNT,
      seenMs: AMOUNT,
      lately: AMOUNT,
      leaseMs: AMOUNT,
      lease: readLease,
    }),
  ),
  totals: fields<Totals>({
    days: list(readDay),
    latest: named(list(whole<Peak>({ startMs: NUMBER, requests: NUMBER }, {}))),
  }),
});

const readStored = fields<Omit<State<unknown>, "version">>({
  keyId: TEXT,
  quota: readQuota,
  read: whole<ReadKey<unknown>>({ key: ANYTHING, readMs: NUMBER }, {}),
  unwritten: fields<Unwritten>({
    banMs: or(TIME, NEVER),
    days: list(TEXT),
    usageMs: AMOUNT,
  }),
});

/** Reads what is stored, at `nowMs` (Unix time). `refuse` is told of a value of a wrong type, which counts as absent. */
export function readState<Key extends object>(
  value: unknown,
  nowMs: number,
  refuse: Refuse,
  policy: KeyPolicy<Key, string>,
): State<Key> {
  if (value === undefined) return { ...NOTHING_STORED, quota: unusedQuota(policy.windows) };
  const { quota, read: given, ...stored } = readStored(value, STATE_KEY, refuse);
  const key = given && nullable(readKeyBy(policy))(given.key, `${STATE_KEY}.read.key`, refuse);
  const read = key === undefined ? undefined : { key, readMs: given?.readMs ?? 0 };
  const limits = read?.key && limitsOf(policy, read.key);
  const counts = completed(quota.counts, policy.windows, quota.totals, limits ?? undefined, nowMs);
  return { ...NOTHING_STORED, ...stored, quota: { ...quota, counts }, read };
}

/**
 * The counts of all windows. One that is missing, or had another length, has at most what the days since its start have admitted: the totals
 * of days are charged like windows. One without a limit so far (`limits`, as they were stored) is new: if it is shorter than a day, it has
 * the requests of the next shorter one. If there are no totals either, nothing is admitted until it ends, unless it is of whole days.
 */
function completed(
  known: Counts,
  lengths: Lengths,
  { days }: Totals,
  limits: Limits | undefined,
  nowMs: number,
): Counts {
  const counts: Record<string, Count> = {};
  let shorter: Count | undefined;
  for (const [name, count] of Object.entries(unused(lengths))) {
    const { seconds } = count;
    const startMs = startOfWindowMs(seconds, nowMs);
    const usedSince = () => {
      const since = days.filter(({ date }) => date >= formatDate(startMs));
      return since.reduce((sum, { admitted }) => sum + admitted, 0);
    };
    const isNew = limits?.[name] === MAX_LIMIT;
    const isOfDays = (seconds * 1000) % DAY_MS === 0;
    const lost = isOfDays || days.length > 0 ? usedSince() : MAX_LIMIT;
    const usedLately = shorter !== undefined && shorter.startMs >= startMs ? shorter.used : 0;
    const used = isNew && !isOfDays ? usedLately : lost;
    const { [name]: stored = { seconds: 0 } } = known;
    counts[name] = stored.seconds === seconds ? (stored as Count) : { seconds, startMs, used };
    shorter = counts[name];
  }
  return counts;
}
