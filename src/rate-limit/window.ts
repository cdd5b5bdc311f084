// The arithmetic of rate limits: fixed windows, aligned to the UTC minute and day. Pure functions of
// (windows, now); storage and clocks are the caller's. Either every window is consumed or none is. What refusals lead
// to is decided in meter.ts.
// Trade-off of fixed windows: around a boundary up to twice the limit can pass, in return for a reset that
// is the same instant for everybody and can be told in advance.

export const WINDOW_SECONDS = { minute: 60, day: 86_400 } as const;

export type WindowName = keyof typeof WINDOW_SECONDS;

/** Requests that each window admits, ≥ 1. */
export type Limits = Record<WindowName, number>;

/** A window that began at `startMs` (Unix time), and in which so many requests were admitted and refused. */
export interface Window {
  name: WindowName;
  limit: number;
  startMs: number;
  used: number;
  refused: number;
}

/**
 * Whether a request is admitted as of `nowMs` (Unix time), and the windows after it. While there is a ban, its end
 * (Unix time) is in `bannedUntilMs`.
 */
export interface Decision {
  admitted: boolean;
  nowMs: number;
  windows: Window[];
  bannedUntilMs?: number;
}

/** A window in which nothing has happened yet. */
export function unusedWindow(name: WindowName, limit: number): Window {
  return { name, limit, startMs: 0, used: 0, refused: 0 };
}

/** Admits a request if every window has room, and then consumes one of each; otherwise only counts the refusal. */
export function take(windows: readonly Window[], nowMs: number): Decision {
  const { admitted, windows: current } = peek(windows, nowMs);
  return { admitted, nowMs, windows: count(current, admitted ? 1 : 0, admitted ? 0 : 1) };
}

/** The windows after so many more requests were admitted and refused in each; less than 0 takes some back. */
export function count(windows: readonly Window[], admitted: number, refused: number): Window[] {
  return windows.map((each) => ({ ...each, used: each.used + admitted, refused: each.refused + refused }));
}

/** What every window has room for. */
export function room(windows: readonly Window[]): number {
  return Math.min(...windows.map(remaining));
}

/** What `take` would say, and the windows as they stand. */
export function peek(windows: readonly Window[], nowMs: number): Decision {
  const current = windows.map((each) => rollOver(each, nowMs));
  return { admitted: current.every((each) => remaining(each) > 0), nowMs, windows: current };
}

/** What is left in a window; never negative, though `used` can exceed a limit that was lowered since. */
export function remaining({ limit, used }: Window): number {
  return Math.max(0, limit - used);
}

/** When the window is whole again (Unix time in milliseconds, a whole second). */
export function resetMs({ name, startMs }: Window): number {
  return startMs + WINDOW_SECONDS[name] * 1000;
}

/**
 * The window that `nowMs` is in. One that lies in the future is kept: a clock that stepped back must not open
 * a window a second time.
 */
function rollOver(window: Window, nowMs: number): Window {
  const startMs = nowMs - (nowMs % (WINDOW_SECONDS[window.name] * 1000));
  return window.startMs >= startMs ? window : { ...window, startMs, used: 0, refused: 0 };
}
