// What an object stores, as one value, and how it reads what another release may have stored.

import {
  ANYTHING,
  byName,
  fields,
  list,
  NUMBER,
  nullable,
  or,
  type Reader,
  type Refuse,
  TEXT,
  TIME,
  whole,
} from "../../lib/tolerant.ts";
import { AMOUNT, readDay } from "../messages.ts";
import { type Count, type Counts, MAX_LIMIT, startOfWindowMs } from "../windows.ts";
import { NEVER, NOTHING_UNWRITTEN, type Unwritten } from "./alarm.ts";
import { type Client, type GrantedLease, type Quota, UNUSED_QUOTA } from "./quota.ts";
import type { ReadRecord } from "./record-reader.ts";
import type { Totals } from "./totals.ts";

/** The name under which it is stored, in all releases. */
export const STATE_KEY = "state";

/** Grows when a field is added, so that a later release can tell which fields this one did not have. */
const VERSION = 1;

/** What the object has in memory: the counts, and what the alarm has to write. */
export type Memory = { quota: Quota; unwritten: Unwritten };

/** What is stored: that, the key's id, and the record as it was last read. */
export interface State<Key> extends Memory {
  version: number;
  keyId: string | undefined;
  read: ReadRecord<Key> | undefined;
}

export const NOTHING_STORED: State<never> = {
  version: VERSION,
  keyId: undefined,
  quota: UNUSED_QUOTA,
  read: undefined,
  unwritten: NOTHING_UNWRITTEN,
};

/** Without its counts, and not yet at the time at which it is read. */
type StoredQuota = Omit<Quota, "counts"> & { counts: Partial<Counts> };

const readCount = whole<Count>({ startMs: NUMBER, used: NUMBER }, {});

/** Without one of them, the lease stays charged, and nobody can credit it. */
const readLease = whole<GrantedLease>(
  { id: NUMBER, size: NUMBER, used: NUMBER, grantedMs: NUMBER, durationMs: NUMBER, renewedMs: NUMBER },
  {},
);

const readQuota = fields<StoredQuota>({
  revision: AMOUNT,
  counts: fields<Partial<Counts>>({ minute: readCount, day: readCount }),
  refusals: fields<Quota["refusals"]>({ firstMs: AMOUNT, late: AMOUNT, maxLimit: AMOUNT }),
  unleasedUntilMs: AMOUNT,
  bannedUntilMs: AMOUNT,
  reported: AMOUNT,
  clients: byName(
    fields<Client>({
      number: AMOUNT,
      admitted: AMOUNT,
      refused: AMOUNT,
      refusedByDay: AMOUNT,
      recent: AMOUNT,
      seenMs: AMOUNT,
      lately: AMOUNT,
      leaseMs: AMOUNT,
      lease: readLease,
    }),
  ),
  totals: fields<Totals>({
    days: list(readDay),
    minutes: list(whole<Totals["minutes"][number]>({ startMs: NUMBER, requests: NUMBER }, {})),
  }),
});

const readStored = fields<Omit<State<unknown>, "quota" | "version"> & { quota: StoredQuota }>({
  keyId: TEXT,
  quota: readQuota,
  read: whole<ReadRecord<unknown>>({ record: ANYTHING, readMs: NUMBER }, {}),
  unwritten: fields<Unwritten>({
    banMs: or(TIME, NEVER),
    days: list(NUMBER),
    usageMs: AMOUNT,
  }),
});

/** Reads what is stored, at `nowMs` (Unix time). `refuse` is told of a value of a wrong type, which counts as absent. */
export function readState<Key>(
  value: unknown,
  nowMs: number,
  refuse: Refuse,
  readKey: Reader<Key | undefined>,
): State<Key> {
  if (value === undefined) return NOTHING_STORED;
  const { quota, read: given, ...stored } = readStored(value, STATE_KEY, refuse);
  const { minute, day } = quota.counts;
  const counts = { minute: minute ?? fullMinute(nowMs), day: day ?? countOfDay(quota.totals, nowMs) };
  const record = given && nullable(readKey)(given.record, `${STATE_KEY}.read.record`, refuse);
  const read = record === undefined ? undefined : { record, readMs: given?.readMs ?? 0 };
  return { ...NOTHING_STORED, ...stored, quota: { ...quota, counts }, read };
}

/** Nobody knows how much of the minute is used: until it ends, nothing is admitted. */
function fullMinute(nowMs: number): Count {
  return { startMs: startOfWindowMs("minute", nowMs), used: MAX_LIMIT };
}

/** The totals of the day are charged like its count. */
function countOfDay({ days }: Totals, nowMs: number): Count {
  const startMs = startOfWindowMs("day", nowMs);
  return { startMs, used: days.find((each) => each.startMs === startMs)?.admitted ?? 0 };
}
