// Reads the messages of the protocol as another release may have written them. What a reader gives to an absent field is safe on both sides: it
// admits nothing above a limit, and refuses nothing beyond the minute.

import {
  ANYTHING,
  allNamed,
  FLAG,
  fields,
  list,
  NUMBER,
  named,
  nullable,
  optional,
  or,
  PART,
  type Reader,
  refuseAll,
  TEXT,
  WHOLE,
  whole,
} from "../lib/tolerant.ts";
import type {
  AcquireAnswer,
  AcquireRequest,
  AcquireResult,
  Day,
  Lease,
  LeaseReport,
  LocalDecision,
  NoRecord,
  RecordAnswer,
  Status,
  UsageAnswer,
} from "./protocol.ts";
import { complete, type Window } from "./windows.ts";

/** More than any number of a call, number of requests, or time: as if a field said "the latest", "all" or "now". */
const MOST = Number.MAX_SAFE_INTEGER;

/** How long a record may be used if the answer does not say it: no record gets less while the database works. */
const LEAST_USABLE_MS = 5_000;

const COUNT = or(WHOLE, 0);
/** May be negative, or a fraction. */
export const AMOUNT = or(NUMBER, 0);

// To the object.

const readRequest = fields<AcquireRequest>({
  client: or(TEXT, ""),
  number: COUNT,
  requests: or(WHOLE, 1),
  revision: COUNT,
  recent: AMOUNT,
  wantsLease: or(FLAG, false),
  // Without its id, the report says nothing, and the isolate may use the lease. Without `used`, it may have used all.
  lease: nullable(
    whole<LeaseReport, "id">({ id: WHOLE }, { used: or(WHOLE, MOST), isOver: or(FLAG, false) }),
  ),
  // Without `admitted`, the decision must not replace a call that was charged. Without its number, it is applied as often as it is reported.
  decisions: list(
    whole<LocalDecision, "admitted">(
      { admitted: WHOLE },
      { number: or(WHOLE, MOST), atMs: or(WHOLE, MOST), refusedBy: named(WHOLE) },
    ),
  ),
  secret: TEXT,
});

/** The hash of a secret. Throws TypeError. */
export function readIdentifyRequest(message: unknown): string {
  return or(TEXT, "")(message, "identify", refuseAll);
}

/** Throws TypeError. */
export function readAcquireRequest(message: unknown): AcquireRequest {
  const { lease, ...request } = readRequest(message, "acquire", refuseAll);
  if (request.client !== "" && request.number > 0)
    return { ...request, ...(lease !== undefined && { lease }) };
  // The object can't tell whose call it is, or whether it is a repeated one. So it counts it, and remembers nothing of it.
  return { ...request, client: "", number: 1, wantsLease: false };
}

// From the object.

const readWindow = whole<Window>({ seconds: NUMBER, startMs: NUMBER, used: NUMBER, limit: NUMBER }, {});

/** What is absent is as the isolate knows it; without `leased`, nothing is leased. */
const STATUS = {
  revision: NUMBER,
  nowMs: NUMBER,
  windows: allNamed(readWindow),
  leased: named(WHOLE),
  bannedUntilMs: NUMBER,
} satisfies { [Field in keyof Required<Status>]: Reader<Status[Field] | undefined> };

type Result = Omit<AcquireResult, keyof Status> & Partial<Status>;
const readResult = fields<Result>({
  ...STATUS,
  admitted: COUNT,
  refused: COUNT,
  share: PART,
  retryMs: NUMBER,
  lease: whole<Lease>({ id: WHOLE, size: WHOLE, grantedMs: NUMBER, durationMs: NUMBER }, {}),
});

export const readDay = whole<Day, "date">(
  { date: TEXT },
  {
    admitted: AMOUNT,
    refusedBy: named(NUMBER),
    busiest: named(NUMBER),
    lastAdmittedMs: AMOUNT,
    lastRefusedMs: AMOUNT,
  },
);

type Parts = { record?: unknown; result?: Result; usage?: Usage };
/** An answer as it is read: the record may be absent, or the object may have none. */
type Read<Answer> = Omit<Answer, keyof Parts> & Partial<NoRecord> & Pick<Parts, "record">;
type Usage = Omit<NonNullable<UsageAnswer<never>["usage"]>, "status"> & { status: Partial<Status> };

const ANSWER = {
  record: ANYTHING,
  usableMs: or(NUMBER, LEAST_USABLE_MS),
  isNew: or(FLAG, false),
  recordMs: NUMBER,
  unavailable: TEXT,
};
const readAnswer = fields<Read<RecordAnswer<never>>>(ANSWER);
const readCounted = fields<Read<AcquireAnswer<never>> & Pick<Parts, "result">>({
  ...ANSWER,
  result: optional(readResult),
});
const readUsed = fields<Read<UsageAnswer<never>> & Pick<Parts, "usage">>({
  ...ANSWER,
  usage: optional(fields<Usage>({ status: fields<Partial<Status>>(STATUS), days: list(readDay) })),
});

/** What an isolate knows already, for what an answer does not say. */
export interface Known<Key> {
  readKey: Reader<Key | undefined>;
  /** A record that the isolate may use, and that may replace the one of the answer. */
  record?: Key | undefined;
  statusBy(record: Key | null): Status;
}

/** Throws TypeError, also if nobody knows the record. */
export function readRecordAnswer<Key>(message: unknown, known: Known<Key>): RecordAnswer<Key> | NoRecord {
  return withRecord(readAnswer(message, "identify", refuseAll), known);
}

/** Throws TypeError, also if nobody knows the record. */
export function readAcquireAnswer<Key>(message: unknown, known: Known<Key>): AcquireAnswer<Key> | NoRecord {
  const { result, ...rest } = readCounted(message, "acquire", refuseAll);
  const answer = withRecord(rest, known);
  if (result === undefined || "unavailable" in answer) return answer;
  return { ...answer, result: { ...result, ...statusOf(result, known.statusBy(answer.record)) } };
}

/** Throws TypeError, also if nobody knows the record. */
export function readUsageAnswer<Key>(message: unknown, known: Known<Key>): UsageAnswer<Key> | NoRecord {
  const { usage, ...rest } = readUsed(message, "usage", refuseAll);
  const answer = withRecord(rest, known);
  if (usage === undefined || "unavailable" in answer) return answer;
  const status = statusOf(usage.status, known.statusBy(answer.record));
  return { ...answer, usage: { ...usage, status } };
}

/** What is told, and for what is not, what is known. */
function statusOf(told: Partial<Status>, known: Status): Status {
  return { ...known, ...told, windows: complete(told.windows ?? {}, known.windows) };
}

function withRecord<Key, Answer extends Read<RecordAnswer<never>>>(answer: Answer, known: Known<Key>) {
  const { record: given, unavailable, recordMs, ...rest } = answer;
  const waited = recordMs === undefined ? {} : { recordMs };
  if (unavailable !== undefined) return { unavailable, ...waited };
  const record = nullable(known.readKey)(given, "record", refuseAll);
  if (record !== undefined) return { ...rest, record, ...waited };
  if (known.record === undefined) throw new TypeError("an answer of the object has no record");
  return { ...rest, record: known.record, usableMs: 0, ...waited };
}
