// Reads the messages of the protocol as another release may have written them. What a reader gives to an absent field is safe on both sides: it
// admits nothing above a limit, and refuses nothing beyond the window that is told of.

import {
  ANYTHING,
  allNamed,
  DATE,
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
  KeyAnswer,
  Lease,
  LeaseReport,
  LocalDecision,
  NoKey,
  Status,
  UsageAnswer,
} from "./protocol.ts";
import { complete, type Window } from "./windows.ts";

/** More than any number of a call, number of requests, or time: as if a field said "the latest", "all" or "now". */
const MOST = Number.MAX_SAFE_INTEGER;

/** How long a key may be used if the answer does not say it: no key gets less while the database works. */
const LEAST_USABLE_MS = 5_000;

const COUNT = or(WHOLE, 0);
/** May be negative, or a fraction. */
export const AMOUNT = or(NUMBER, 0);

// To the object.

const readRequest = fields<AcquireRequest>({
  isolate: or(TEXT, ""),
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
  if (request.isolate !== "" && request.number > 0)
    return { ...request, ...(lease !== undefined && { lease }) };
  // The object can't tell whose call it is, or whether it is a repeated one. So it counts it, and remembers nothing of it.
  return { ...request, isolate: "", number: 1, wantsLease: false };
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
  { date: DATE },
  {
    admitted: AMOUNT,
    refusedBy: named(NUMBER),
    busiest: named(NUMBER),
    lastAdmittedMs: AMOUNT,
    lastRefusedMs: AMOUNT,
  },
);

type Parts = { key?: unknown; result?: Result; usage?: Usage };
/** An answer as it is read: the key may be absent, or the object may have none. */
type Read<Answer> = Omit<Answer, keyof Parts> & Partial<NoKey> & Pick<Parts, "key">;
type Usage = Omit<NonNullable<UsageAnswer<never>["usage"]>, "status"> & { status: Partial<Status> };

const ANSWER = {
  key: ANYTHING,
  usableMs: or(NUMBER, LEAST_USABLE_MS),
  isNew: or(FLAG, false),
  loadMs: NUMBER,
  unavailable: TEXT,
};
const readAnswer = fields<Read<KeyAnswer<never>>>(ANSWER);
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
  /** A key that the isolate may use, and that may replace the one of the answer. */
  key?: Key | undefined;
  statusBy(key: Key | null): Status;
}

/** Throws TypeError, also if nobody knows the key. */
export function readKeyAnswer<Key>(message: unknown, known: Known<Key>): KeyAnswer<Key> | NoKey {
  return withKey(readAnswer(message, "identify", refuseAll), known);
}

/** Throws TypeError, also if nobody knows the key. */
export function readAcquireAnswer<Key>(message: unknown, known: Known<Key>): AcquireAnswer<Key> | NoKey {
  const { result, ...rest } = readCounted(message, "acquire", refuseAll);
  const answer = withKey(rest, known);
  if (result === undefined || "unavailable" in answer) return answer;
  return { ...answer, result: { ...result, ...statusOf(result, known.statusBy(answer.key)) } };
}

/** Throws TypeError, also if nobody knows the key. */
export function readUsageAnswer<Key>(message: unknown, known: Known<Key>): UsageAnswer<Key> | NoKey {
  const { usage, ...rest } = readUsed(message, "usage", refuseAll);
  const answer = withKey(rest, known);
  if (usage === undefined || "unavailable" in answer) return answer;
  const status = statusOf(usage.status, known.statusBy(answer.key));
  return { ...answer, usage: { ...usage, status } };
}

/** What is told, and for what is not, what is known. */
function statusOf(told: Partial<Status>, known: Status): Status {
  return { ...known, ...told, windows: complete(told.windows ?? {}, known.windows) };
}

function withKey<Key, Answer extends Read<KeyAnswer<never>>>(answer: Answer, known: Known<Key>) {
  const { key: given, unavailable, loadMs, ...rest } = answer;
  const waited = loadMs === undefined ? {} : { loadMs };
  if (unavailable !== undefined) return { unavailable, ...waited };
  const key = nullable(known.readKey)(given, "key", refuseAll);
  if (key !== undefined) return { ...rest, key, ...waited };
  if (known.key === undefined) throw new TypeError("an answer of the object has no key");
  return { ...rest, key: known.key, usableMs: 0, ...waited };
}
