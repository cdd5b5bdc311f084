// The arithmetic of rate limits: fixed windows, aligned to the UTC minute and day. Pure functions of (windows, now). A request is
// charged to all windows or to none. Trade-off: up to twice the limit can pass around a boundary, but the reset is the same
// instant for all clients and known in advance.

export const WINDOW_SECONDS = { minute: 60, day: 86_400 } as const;

export type WindowName = keyof typeof WINDOW_SECONDS;
export const WINDOW_NAMES = ["minute", "day"] as const satisfies WindowName[];

/** How many requests each window admits, ≥ 1. */
export type Limits = Record<WindowName, number>;

/** Requests admitted in the window that began at `startMs` (Unix time). */
export type Count = { startMs: number; used: number };
export type Counts = Record<WindowName, Count>;
export type Window = Count & { limit: number };

/** The windows of a client. Clients without a key have no day. */
export type Windows = { minute: Window; day?: Window };
export type KeyWindows = Record<WindowName, Window>;

/** Whether a request is or would be admitted at `nowMs` (Unix time), and the windows then. `bannedUntilMs` is set during a ban. */
export interface Outlook<All extends Windows = Windows> {
  admitted: boolean;
  nowMs: number;
  windows: All;
  bannedUntilMs?: number;
}

/**
 * How a request was decided: from the isolate's lease, by the object of its key, in the isolate because a window is full or the key is
 * banned, in the isolate because the object did not decide in time, or by the client's address.
 */
export const DECIDED_BY = ["lease", "object", "full", "ban", "local", "address"] as const;

/** The windows are those after the request. */
export interface Decision<All extends Windows = Windows> extends Outlook<All> {
  by: (typeof DECIDED_BY)[number];
}

export type KeyDecision = Decision<KeyWindows>;

/** No limit is larger. */
export const MAX_LIMIT = 1_000_000_000;

export const UNUSED_COUNT: Count = { startMs: 0, used: 0 };

export function withLimits({ minute, day }: Counts, limits: Limits): KeyWindows {
  return { minute: { ...minute, limit: limits.minute }, day: { ...day, limit: limits.day } };
}

/** Windows or counts. */
type AnyWindows = { minute: Count; day?: Count };

export function mapWindows<All extends AnyWindows>(
  { minute, day }: All,
  change: (each: All["minute"], name: WindowName) => All["minute"],
): All {
  const changed: AnyWindows = { minute: change(minute, "minute") };
  if (day !== undefined) changed.day = change(day, "day");
  return changed as All;
}

/** Adds requests that were admitted at `atMs` (Unix time; by default now) to the windows that had begun by then. */
export function add<All extends AnyWindows>(
  windows: All,
  admitted: number,
  atMs = Number.POSITIVE_INFINITY,
): All {
  return mapWindows(windows, (each) =>
    atMs < each.startMs ? each : { ...each, used: each.used + admitted },
  );
}

/** The windows once these requests have come back. */
export function giveBack(windows: KeyWindows, requests: Record<WindowName, number>): KeyWindows {
  return mapWindows(windows, (each, name) => ({ ...each, used: each.used - requests[name] }));
}

/** The windows of a refusal, once these leases have come back and waiting requests have used them: one is full. */
export function fullWindows(windows: KeyWindows, leased: Record<WindowName, number>): KeyWindows {
  const least = giveBack(windows, leased);
  return add(least, room(least));
}

/** The window that refuses: if both are full, the day, which resets later. */
export function refusingWindow(windows: KeyWindows, leased: Record<WindowName, number>): WindowName {
  return remaining(fullWindows(windows, leased).day) === 0 ? "day" : "minute";
}

/** How many requests all windows have room for. */
export function room({ minute, day }: Windows): number {
  return day === undefined ? remaining(minute) : Math.min(remaining(minute), remaining(day));
}

/** How many requests a window has left. `used` can exceed a limit that was lowered. */
export function remaining({ limit, used }: Window): number {
  return Math.max(0, limit - used);
}

/** When a window ends (Unix time in milliseconds, a whole second). */
export function resetMs({ startMs }: Count, name: WindowName): number {
  return startMs + WINDOW_SECONDS[name] * 1000;
}

/** When the window of `nowMs` began (both Unix time in milliseconds). */
export function startOfWindowMs(name: WindowName, nowMs: number): number {
  return nowMs - (nowMs % (WINDOW_SECONDS[name] * 1000));
}

/** The windows as of `nowMs`. A future window is kept: a clock that steps back must not reopen an earlier window. */
export function rollOver<All extends AnyWindows>(windows: All, nowMs: number): All {
  return mapWindows(windows, (each, name) => {
    const startMs = startOfWindowMs(name, nowMs);
    return each.startMs >= startMs ? each : { ...each, startMs, used: 0 };
  });
}
