// The arithmetic of rate limits: fixed windows, aligned to Unix time. A window has a name, a length, and what is counted in it; all windows of
// a key are a record by name, the shortest first. Pure functions of (windows, now). A request is charged to all windows or to none.
// Trade-off: up to twice the limit can pass around a boundary, but the reset is the same instant for all clients and known in advance.

/** The length of each window in seconds. */
export type Lengths = Readonly<Record<string, number>>;
/** How many requests each window admits: whole numbers up to MAX_LIMIT, which a window without a limit has. */
export type Limits = Readonly<Record<string, number>>;

/** Requests admitted in the window of so many seconds that began at `startMs` (Unix time). */
export interface Count {
  seconds: number;
  startMs: number;
  used: number;
}
export interface Window extends Count {
  limit: number;
}

/** What each window has, by name. */
export type ByWindow<Each> = Readonly<Record<string, Each>>;
export type Counts = ByWindow<Count>;
export type Windows = ByWindow<Window>;

/** Whether a request is or would be admitted at `nowMs` (Unix time), and the windows then. `bannedUntilMs` is set during a ban. */
export interface Outlook {
  admitted: boolean;
  nowMs: number;
  windows: Windows;
  bannedUntilMs?: number;
}

/**
 * How a request was decided: from the isolate's lease, by the object of its key, in the isolate because a window is full or the key is
 * banned, in the isolate because the object did not decide in time, or by the client's address.
 */
export const DECIDED_BY = ["lease", "object", "full", "ban", "local", "address"] as const;

/** The windows are those after the request. */
export interface Decision extends Outlook {
  by: (typeof DECIDED_BY)[number];
}

/** No limit is larger. */
export const MAX_LIMIT = 1_000_000_000;

/** Of so many UTC days totals are kept, today included. */
export const DAYS_KEPT = 30;

const DAY_SECONDS = 86_400;
/** The shortest window that counting can be exact in: of a request that has to wait, it has to know the end. */
const MIN_SECONDS = 10;
/** Totals tell a count that was lost. */
const MAX_SECONDS = DAYS_KEPT * DAY_SECONDS;
const NAME = /^[a-z][a-z0-9_-]*$/;

/**
 * Windows in which nothing was counted. Throws RangeError if they don't fit (KeyPolicy): each is a multiple of the one before, so that of two
 * full windows the longer one resets last.
 */
export function unused(lengths: Lengths): Counts {
  const all = Object.entries(lengths);
  if (all.length === 0) throw new RangeError("there is no window");
  for (const [index, [name, seconds]] of all.entries()) {
    const [, before] = all[index - 1] ?? [];
    const isShortest = Number.isInteger(seconds) && seconds >= MIN_SECONDS && DAY_SECONDS % seconds === 0;
    const fits = before === undefined ? isShortest : seconds > before && seconds % before === 0;
    if (!fits || seconds > MAX_SECONDS || !NAME.test(name) || name in Object.prototype)
      throw new RangeError(`the window ${name} of ${seconds} s does not fit`);
  }
  return Object.fromEntries(all.map(([name, seconds]) => [name, { seconds, startMs: 0, used: 0 }]));
}

/** What the shortest window has. */
export function shortest<Each>(windows: ByWindow<Each>): Each {
  for (const name in windows) return windows[name] as Each;
  throw new RangeError("there is no window");
}

/** What the longest window has. */
export function longest<Each>(windows: ByWindow<Each>): Each {
  return Object.values(windows).at(-1) ?? shortest(windows);
}

/** The limit of the shortest window that has one. */
export function shortestLimit(windows: Windows): number {
  for (const name in windows) {
    const { limit } = windows[name] as Window;
    if (limit < MAX_LIMIT) return limit;
  }
  return MAX_LIMIT;
}

/** The windows with these limits. Another release may have others, which are left out. */
export function withLimits(counts: Counts, limits: Limits): Windows {
  const limited: Record<string, Window> = {};
  for (const name in counts) {
    const limit = limits[name];
    if (limit !== undefined) limited[name] = { ...(counts[name] as Count), limit };
  }
  return limited;
}

/** The windows, and of others those that are missing, the shortest first. */
export function complete(windows: Windows, others: Windows): Windows {
  if (Object.keys(others).every((name) => name in windows)) return windows;
  const all = Object.entries({ ...others, ...windows });
  return Object.fromEntries(all.sort(([, a], [, b]) => a.seconds - b.seconds));
}

export function mapWindows<Each, Changed>(
  windows: ByWindow<Each>,
  change: (each: Each, name: string) => Changed,
): ByWindow<Changed> {
  const changed: Record<string, Changed> = {};
  for (const name in windows) changed[name] = change(windows[name] as Each, name);
  return changed;
}

/** Adds requests that were admitted at `atMs` (Unix time; by default now) to the windows that had begun by then. */
export function add<Each extends Count>(
  windows: ByWindow<Each>,
  admitted: number,
  atMs = Number.POSITIVE_INFINITY,
): ByWindow<Each> {
  return mapWindows(windows, (each) =>
    atMs < each.startMs ? each : { ...each, used: each.used + admitted },
  );
}

/** The windows once these requests have come back. */
export function giveBack(windows: Windows, requests: ByWindow<number>): Windows {
  return mapWindows(windows, (each, name) => ({ ...each, used: each.used - (requests[name] ?? 0) }));
}

/** The windows of a refusal, once these leases have come back and waiting requests have used them: one is full. */
export function fullWindows(windows: Windows, leased: ByWindow<number>): Windows {
  const least = giveBack(windows, leased);
  return add(least, room(least));
}

/** The sum of what the windows have. */
export function sum(numbers: ByWindow<number>): number {
  let all = 0;
  for (const name in numbers) all += numbers[name] as number;
  return all;
}

/** The sums of what the windows have, by name. */
export function addEach(numbers: ByWindow<number>, others: ByWindow<number>): ByWindow<number> {
  const all: Record<string, number> = { ...numbers };
  for (const name in others) all[name] = (all[name] ?? 0) + (others[name] as number);
  return all;
}

/** The window that refuses: of several full ones the longest, which resets last. If none is full, the shortest. */
export function refusingWindow(windows: Windows): string {
  const names = Object.keys(windows);
  return names.findLast((name) => remaining(windows[name] as Window) === 0) ?? (names[0] as string);
}

/** How many requests all windows have room for. */
export function room(windows: Windows): number {
  let least = Number.POSITIVE_INFINITY;
  for (const name in windows) least = Math.min(least, remaining(windows[name] as Window));
  return least;
}

/** How many requests a window has left, ≥ 0. `used` can exceed a limit that was lowered. */
export function remaining({ limit, used }: Window): number {
  return Math.max(0, limit - used);
}

/** When a window ends (Unix time in milliseconds, a whole second). */
export function resetMs({ startMs, seconds }: Count): number {
  return startMs + seconds * 1000;
}

/** When the window of so many seconds began that `nowMs` is in (both Unix time in milliseconds). */
export function startOfWindowMs(seconds: number, nowMs: number): number {
  return nowMs - (nowMs % (seconds * 1000));
}

/** The windows as of `nowMs`. A future window is kept: a clock that steps back must not reopen an earlier window. */
export function rollOver<Each extends Count>(windows: ByWindow<Each>, nowMs: number): ByWindow<Each> {
  return mapWindows(windows, (each) => {
    const startMs = startOfWindowMs(each.seconds, nowMs);
    return each.startMs >= startMs ? each : { ...each, startMs, used: 0 };
  });
}
