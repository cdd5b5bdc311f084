// What is remembered of a key, and how requests change it: the windows, the ban, the leases, and the ids of the latest
// takes. Pure functions of (meter, limits, take, now). The key's Durable Object runs them on what it has stored; an
// isolate that can't reach the object runs them on what it last knew.

import { grant, type Lease, NO_WISH, type Unused, type Wish } from "./lease.ts";
import { count, type Decision, type Limits, peek, room, unusedWindow, type Window } from "./window.ts";

/** How long a ban lasts. It neither grows nor shrinks. */
export const BAN_MS = 10 * 60_000;

/** Refusals within one minute that a key of any plan may have: clients that start up together are no attackers. */
export const TOLERATED_REFUSALS = 60;

/** Days whose totals are kept, today included. */
export const DAYS_KEPT = 30;

/** Admissions that a take can report; in an outage in which an isolate makes more of a key, the others stay unknown. */
export const MAX_UNREPORTED = 100;

/** How long what is left of a lease can be given back. Whoever holds it is gone if that was not done by then. */
const LEASE_KEPT_MS = 10_000;

/**
 * Enough to know the longest report again after what other isolates take meanwhile: what was forgotten would be counted
 * twice. With ids of this length, a row with a dozen leases still fits into one page of the storage.
 */
const MAX_RECENT_TAKES = 256;

/** 59 bits in base62: of two that are remembered at the same time, none are the same. */
export const TAKE_ID_LENGTH = 10;

export interface Meter {
  /** The minute and the day, in this order. */
  windows: Window[];
  /** Unix time; 0 if there never was a ban. */
  bannedUntilMs: number;
  /**
   * The latest takes, the newest last: for each a sign, + for admitted or - for refused, its id, and if it was not about
   * one request, = and how many were admitted.
   */
  recentTakes: string;
  /** Leases of which nothing was given back yet. They are in `used`. */
  leases: readonly Lease[];
}

/** Requests that ask to be counted, each for itself, in their order. */
export interface Take {
  /** Invented for this take by whoever asks: TAKE_ID_LENGTH letters and digits. Never from a client. */
  id: string;
  /** How many requests; 0 of a caller who only reports. Absent, because callers of an earlier version say nothing: 1. */
  requests?: number;
  /** The lease that the asker would like. Absent: none. */
  wish?: Wish;
  /** What the asker did not use of its leases. */
  unused?: readonly Unused[];
  /** Requests that were let in without being counted here, because the object could not be reached. */
  unreported: readonly Admission[];
  /** The end of the latest ban that the asker knows of, in Unix time, be it one that it decided alone; 0 if of none. */
  bannedUntilMs: number;
}

/** Requests of one take that were let in. */
export interface Admission {
  id: string;
  /** Unix time. */
  atMs: number;
  /** How many. Absent, because callers of an earlier version say nothing: 1. */
  requests?: number;
}

/** What is decided about a take: `admitted` says whether all of its requests were let in. */
export interface Verdict extends Decision {
  /** How many were let in: the first ones. An object of an earlier version says nothing, and has counted one. */
  admissions?: number;
  lease?: Lease;
}

/** The meter of a key that has never been used. */
export const UNUSED_METER: Meter = {
  windows: [unusedWindow("minute", 0), unusedWindow("day", 0)],
  bannedUntilMs: 0,
  recentTakes: "",
  leases: [],
};

/** How a key stands as of `nowMs`, without counting anything. */
export function standing({ windows, bannedUntilMs }: Meter, limits: Limits, nowMs: number): Decision {
  const decision = peek(
    windows.map((window) => ({ ...window, limit: limits[window.name] })),
    nowMs,
  );
  return nowMs < bannedUntilMs ? { ...decision, admitted: false, bannedUntilMs } : decision;
}

/**
 * Decides about a take. The same take again gets the same answer and changes nothing. During a ban nothing counts; the
 * refusal that is one too many begins it. `meter` is returned itself if nothing has changed.
 */
export function decide(
  meter: Meter,
  limits: Limits,
  take: Take,
  nowMs: number,
): { verdict: Verdict; meter: Meter } {
  const { id, requests = 1, wish = NO_WISH } = take;
  const caughtUp = catchUp(meter, take, nowMs);
  const before = standing(caughtUp, limits, nowMs);
  const known = outcomeOf(caughtUp, id);
  if (known !== undefined && (known.admissions > 0 || requests === 0)) {
    return { verdict: answerAgain(before, caughtUp, take, known), meter: caughtUp };
  }
  // A refusal that is asked again in another window is decided anew: it has used nothing up.
  const isRefusedAgain = known !== undefined && !before.admitted;
  if (isRefusedAgain || before.bannedUntilMs !== undefined || requests + wish.size === 0) {
    return { verdict: { ...before, admissions: 0 }, meter: caughtUp };
  }

  const admissions = Math.min(requests, room(before.windows));
  const admitted = admissions === requests;
  // The one that begins a ban counts, whatever the limit was before.
  const refusals = Math.min(requests - admissions, Math.max(1, refusalsToBan(before.windows)));
  const counted = count(before.windows, admissions, refusals);
  const isBanned = !admitted && refusalsToBan(counted) === 0;
  const bannedUntilMs = isBanned ? nowMs + BAN_MS : caughtUp.bannedUntilMs;
  const lease = admitted ? grant(id, wish, counted, nowMs) : undefined;
  const windows = count(counted, lease?.size ?? 0, 0);
  const decision = { admitted, nowMs, windows, admissions };
  return {
    verdict: { ...decision, ...(isBanned && { bannedUntilMs }), ...(lease && { lease }) },
    meter: {
      windows,
      bannedUntilMs,
      recentTakes: withOutcome(caughtUp.recentTakes, id, admissions, requests),
      leases: lease === undefined ? caughtUp.leases : [...caughtUp.leases, lease],
    },
  };
}

/** The answer to a take that was lost: the same, with as much of the lease's time as is left. */
function answerAgain(before: Decision, { leases }: Meter, take: Take, known: Outcome): Verdict {
  const { id, requests = 1 } = take;
  const { admissions, isOfOne } = known;
  // The object has been of an earlier version: it has looked at the first request only, and the others have to ask again.
  if (isOfOne && requests > 1) return { ...before, admitted: true };
  const lease = leases.find((each) => each.id === id);
  const age = lease === undefined ? 0 : Math.max(0, before.nowMs - lease.atMs);
  return {
    ...before,
    admitted: admissions === requests,
    admissions,
    ...(lease && { lease: { ...lease, forMs: lease.forMs - age } }),
  };
}

/** How many more refusals ban the key: a client that only asks too much has as many as it may send. */
function refusalsToBan(windows: readonly Window[]): number {
  const tolerated = ({ limit, refused }: Window) => Math.max(TOLERATED_REFUSALS, limit) - refused;
  const left = windows.filter(({ name }) => name === "minute").map(tolerated);
  return Math.max(0, ...left.map((refusals) => refusals + 1));
}

/**
 * The meter after what was decided elsewhere, while it could not be asked: each request that was let in counts once, in
 * the windows that it fell into, a ban holds to its end, and what was left of a lease no longer counts.
 */
function catchUp(meter: Meter, { unreported, unused = [], ...take }: Take, nowMs: number): Meter {
  // The isolate's clock may be wrong. A ban is not longer for that.
  const bannedUntilMs = Math.min(take.bannedUntilMs, nowMs + BAN_MS);
  const unknown = unreported
    .map(({ id, atMs, requests: all = 1 }) => {
      return { id, atMs, all, requests: all - (outcomeOf(meter, id)?.admissions ?? 0) };
    })
    .filter(({ requests }) => requests > 0);
  const leftOver = unused.flatMap(({ id, count: left }) => {
    const lease = meter.leases.find((each) => each.id === id);
    return lease === undefined ? [] : [{ atMs: lease.atMs, requests: -Math.min(left, lease.size) }];
  });
  const isOver = ({ id, atMs }: Lease) =>
    unused.some((each) => each.id === id) || Math.abs(nowMs - atMs) >= LEASE_KEPT_MS;
  if (unknown.length === 0 && bannedUntilMs <= meter.bannedUntilMs && !meter.leases.some(isOver))
    return meter;
  const windows = peek(meter.windows, nowMs).windows.map((window) => {
    const fellInto = [...unknown, ...leftOver].filter(({ atMs }) => atMs >= window.startMs);
    return { ...window, used: fellInto.reduce((used, { requests }) => used + requests, window.used) };
  });
  return {
    windows,
    bannedUntilMs: Math.max(meter.bannedUntilMs, bannedUntilMs),
    recentTakes: unknown.reduce((takes, { id, all }) => withOutcome(takes, id, all, all), meter.recentTakes),
    leases: meter.leases.filter((lease) => !isOver(lease)),
  };
}

/** What became of a take when it was last decided about: how many of its requests were let in. */
interface Outcome {
  admissions: number;
  /** It was about one request, as all takes are of callers and objects of an earlier version. */
  isOfOne: boolean;
}

function outcomeOf({ recentTakes }: Pick<Meter, "recentTakes">, id: string): Outcome | undefined {
  const start = recentTakes.lastIndexOf(id);
  if (start === -1) return undefined;
  const [, admissions] = recentTakes.slice(start + TAKE_ID_LENGTH).match(/^=(\d+)/) ?? [];
  if (admissions !== undefined) return { admissions: Number(admissions), isOfOne: false };
  return { admissions: recentTakes[start - 1] === "+" ? 1 : 0, isOfOne: true };
}

function withOutcome(recentTakes: string, id: string, admissions: number, requests: number): string {
  const sign = admissions === requests || admissions > 0 ? "+" : "-";
  const take = `${sign}${id}${requests === 1 ? "" : `=${admissions}`}`;
  return `${recentTakes}${take}`.slice(-MAX_RECENT_TAKES * (1 + TAKE_ID_LENGTH));
}
