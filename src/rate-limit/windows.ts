// The arithmetic of rate limits: fixed windows, aligned to the UTC minute and day. Pure functions of (windows, now). A request
// consumes one of every window or of none. Trade-off of fixed windows: around a boundary up to twice the limit can pass, in
// return for a reset that is the same instant for everybody and known in advance.

export const WINDOW_SECONDS = { minute: 60, day: 86_400 } as const;

export type WindowName = keyof typeof WINDOW_SECONDS;

/** How many requests each window admits, ≥ 1. */
export type Limits = Record<WindowName, number>;

/** A window that began at `startMs` (Unix time), and how many requests it admitted and refused. */
export interface Window {
  limit: number;
  startMs: number;
  used: number;
  refused: number;
}

/** The windows of a caller. Callers without a key have no day. */
export interface Windows {
  minute: Window;
  day?: Window;
}

export type KeyWindows = Record<WindowName, Window>;

/**
 * Whether a request is admitted as of `nowMs` (Unix time), and the windows after it. During a ban, `bannedUntilMs` is its end
 * (Unix time).
 */
export interface Decision<All extends Windows = Windows> {
  admitted: boolean;
  nowMs: number;
  windows: All;
  bannedUntilMs?: number;
}

export type KeyDecision = Decision<KeyWindows>;

/** A window in which nothing has happened yet, of a limit that is not known yet. */
export const UNUSED_WINDOW: Window = { limit: 0, startMs: 0, used: 0, refused: 0 };

/** The windows, each changed by a function. */
export function mapWindows<All extends Windows>(
  { minute, day }: All,
  change: (window: Window, name: WindowName) => Window,
): All {
  const changed: Windows = { minute: change(minute, "minute") };
  if (day !== undefined) changed.day = change(day, "day");
  return changed as All;
}

/** Adds to what each window admitted and refused; negative numbers subtract. */
export function count<All extends Windows>(windows: All, admitted: number, refused: number): All {
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
  const current = mapWindows(windows, (each, name) => rollOver(each, name, nowMs));
  return { admitted: room(current) > 0, nowMs, windows: current };
}

/** What a window has left; never negative, though `used` can exceed a limit that was lowered since. */
export function remaining({ limit, used }: Window): number {
  return Math.max(0, limit - used);
}

/** When a window ends (Unix time in milliseconds, a whole second). */
export function resetMs({ startMs }: Window, name: WindowName): number {
  return startMs + WINDOW_SECONDS[name] * 1000;
}

/** The beginning of the window that `nowMs` is in (both Unix time in milliseconds). */
export function startOfWindowMs(name: WindowName, nowMs: number): number {
  return nowMs - (nowMs % (WINDOW_SECONDS[name] * 1000));
}

/** The window as of `nowMs`. One that lies in the future is kept: a clock that steps back must not open a window again. */
function rollOver(window: Window, name: WindowName, nowMs: number): Window {
  const startMs = startOfWindowMs(name, nowMs);
  return window.startMs >= startMs ? window : { ...window, startMs, used: 0, refused: 0 };
}
