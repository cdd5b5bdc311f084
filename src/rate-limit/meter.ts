// What is remembered of a key, and how a request changes it: the windows, the ban, and the ids of the latest takes. Pure
// functions of (meter, limits, take, now). The key's Durable Object runs them on what it has stored; an isolate that
// can't reach the object runs them on what it last knew.

import { type Decision, type Limits, peek, take as takeOne, unusedWindow, type Window } from "./window.ts";

/** How long a ban lasts. It neither grows nor shrinks. */
export const BAN_MS = 10 * 60_000;

/** Refusals within one minute that a key of any plan may have: clients that start up together are no attackers. */
export const TOLERATED_REFUSALS = 60;

/** Days whose totals are kept, today included. */
export const DAYS_KEPT = 30;

/** Requests that a take can report; in an outage in which an isolate lets in more of a key, the others stay unknown. */
export const MAX_UNREPORTED = 100;

/**
 * Enough to know the longest report again after what other isolates take meanwhile: what was forgotten would be counted
 * twice. With ids of this length, a row still fits into one page of the storage.
 */
const MAX_RECENT_TAKES = 256;

/** 59 bits in base62: of two that are remembered at the same time, none are the same. */
export const TAKE_ID_LENGTH = 10;

export interface Meter {
  /** The minute and the day, in this order. */
  windows: Window[];
  /** Unix time; 0 if there never was a ban. */
  bannedUntilMs: number;
  /** The latest takes, the newest last: for each a sign, + for admitted or - for refused, and its id. */
  recentTakes: string;
}

/** A request that asks to be counted. */
export interface Take {
  /** Invented for this request by whoever asks: TAKE_ID_LENGTH letters and digits. Never from a client. */
  id: string;
  /** Requests that were let in without being counted here, because the object could not be reached. */
  unreported: Admission[];
  /** The end of the latest ban that the asker knows of, in Unix time, be it one that it decided alone; 0 if of none. */
  bannedUntilMs: number;
}

export interface Admission {
  id: string;
  /** Unix time. */
  atMs: number;
}

/** The meter of a key that has never been used. */
export const UNUSED_METER: Meter = {
  windows: [unusedWindow("minute", 0), unusedWindow("day", 0)],
  bannedUntilMs: 0,
  recentTakes: "",
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
): { decision: Decision; meter: Meter } {
  const caughtUp = catchUp(meter, take, nowMs);
  const before = standing(caughtUp, limits, nowMs);
  const known = outcomeOf(caughtUp, take.id);
  if (known === true) return { decision: { ...before, admitted: true }, meter: caughtUp };
  // A refusal that is asked again in another window is decided anew: it has used nothing up.
  const isRefusedAgain = known === false && !before.admitted;
  if (isRefusedAgain || before.bannedUntilMs !== undefined) return { decision: before, meter: caughtUp };

  const counted = takeOne(before.windows, nowMs);
  const { admitted, windows } = counted;
  const isBanned = !admitted && windows.some(isHammered);
  const bannedUntilMs = isBanned ? nowMs + BAN_MS : caughtUp.bannedUntilMs;
  const recentTakes = withOutcome(caughtUp.recentTakes, take.id, admitted);
  return {
    decision: isBanned ? { ...counted, bannedUntilMs } : counted,
    meter: { windows, bannedUntilMs, recentTakes },
  };
}

/** More refusals than a client has that only asks too much: as many again as it may send. */
function isHammered({ name, limit, refused }: Window): boolean {
  return name === "minute" && refused > Math.max(TOLERATED_REFUSALS, limit);
}

/**
 * The meter after what was decided elsewhere, while it could not be asked: each request that was let in counts once, in
 * the windows that it fell into, and a ban holds to its end.
 */
function catchUp(meter: Meter, { unreported, bannedUntilMs }: Take, nowMs: number): Meter {
  const unknown = unreported.filter(({ id }) => outcomeOf(meter, id) !== true);
  if (unknown.length === 0 && bannedUntilMs <= meter.bannedUntilMs) return meter;
  const windows = peek(meter.windows, nowMs).windows.map((window) => ({
    ...window,
    used: window.used + unknown.filter(({ atMs }) => atMs >= window.startMs).length,
  }));
  const recentTakes = unknown.reduce((takes, { id }) => withOutcome(takes, id, true), meter.recentTakes);
  return { windows, bannedUntilMs: Math.max(meter.bannedUntilMs, bannedUntilMs), recentTakes };
}

/** Whether a take was admitted, when it was last decided about, or undefined if it is unknown. */
function outcomeOf({ recentTakes }: Meter, id: string): boolean | undefined {
  const start = recentTakes.lastIndexOf(id);
  return start === -1 ? undefined : recentTakes[start - 1] === "+";
}

function withOutcome(recentTakes: string, id: string, admitted: boolean): string {
  return `${recentTakes}${admitted ? "+" : "-"}${id}`.slice(-MAX_RECENT_TAKES * (1 + TAKE_ID_LENGTH));
}
