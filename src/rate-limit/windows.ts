// The arithmetic of rate limits: fixed windows, aligned to the UTC minute and day. Pure functions of (windows, now). A request
// consumes one of every window or of none. Trade-off of fixed windows: around a boundary up to twice the limit can pass, in
// return for a reset that is the same instant for everybody and known in advance.

export const WINDOW_SECONDS = { minute: 60, day: 86_400 } as const;

export type WindowName = keyof typeof WINDOW_SECONDS;

/** How many requests each window admits, ≥ 1. */
export type Limits = Record<WindowName, number>;

/** How many requests were admitted and refused in the window that began at `startMs` (Unix time). This is what is stored. */
export interface Count {
  startMs: number;
  used: number;
  refused: number;
}

export type Counts = Record<WindowName, Count>;

/** A count, and the limit that it is held against. */
export interface Window extends Count {
  limit: number;
}

/** The windows of a client. Clients without a key have no day. */
export interface Windows {
  minute: Window;
  day?: Window;
}

export type KeyWindows = Record<WindowName, Window>;

/** Whether a request is admitted as of `nowMs`, and the windows after it. `bannedUntilMs` is set during a ban. Both are Unix time. */
export interface Decision<All extends Windows = Windows> {
  admitted: boolean;
  nowMs: number;
  windows: All;
  bannedUntilMs?: number;
}

export type KeyDecision = Decision<KeyWindows>;

export const UNUSED_COUNT: Count = { startMs: 0, used: 0, refused: 0 };

export function withLimits({ minute, day }: Counts, limits: Limits): KeyWindows {
  return { minute: { ...minute, limit: limits.minute }, day: { ...day, limit: limits.day } };
}

/** The windows or counts, each changed by a function. */
export function mapWindows<All extends { minute: Count; day?: Count }>(
  { minute, day }: All,
  change: (each: All["minute"], name: WindowName) => All["minute"],
): All {
  const changed: { minute: Count; day?: Count } = { minute: change(minute, "minute") };
  if (day !== undefined) changed.day = change(day, "day");
  return changed as All;
}

/** Adds to what each window admitted and refused; negative numbers subtract. */
export function add<All extends { minute: Count; day?: Count }>(
  windows: All,
  admitted: number,
  refused: number,
): All {
  return mapWindows(windows, (each) => ({
    ...each,
    used: each.used + admitted,
    refused: each.refused + refused,
  }));
}

/** How many requests every window has room for. */
export function room({ minute, day }: Windows): number {
  return day === undefined ? remaining(minute) : Math.min(remaining(minute), remaining(day));
}

/** Whether a request would be admitted: if every window has room. And the windows as of now. */
export function peek<All extends Windows>(windows: All, nowMs: number): Decision<All> {
  const current = rollOver(windows, nowMs);
  return { admitted: room(current) > 0, nowMs, windows: current };
}

/** How many requests a window has left; never negative, though `used` can exceed a limit that was lowered since. */
export function remaining({ limit, used }: Window): number {
  return Math.max(0, limit - used);
}

/** When a window ends (Unix time in milliseconds, a whole second). */
export function resetMs({ startMs }: Count, name: WindowName): number {
  return startMs + WINDOW_SECONDS[name] * 1000;
}

/** The beginning of the window that `nowMs` is in (both Unix time in milliseconds). */
export function startOfWindowMs(name: WindowName, nowMs: number): number {
  return nowMs - (nowMs % (WINDOW_SECONDS[name] * 1000));
}

/** The windows as of `nowMs`. One that lies in the future is kept: a clock that steps back must not open a window again. */
export function rollOver<All extends { minute: Count; day?: Count }>(windows: All, nowMs: number): All {
  return mapWindows(windows, (each, name) => {
    const startMs = startOfWindowMs(name, nowMs);
    return each.startMs >= startMs ? each : { ...each, startMs, used: 0, refused: 0 };
  });
}
