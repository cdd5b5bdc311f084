// What the headers of a response say about limits and waits.

export const WINDOW_MS = { minute: 60_000, day: 86_400_000 };
export type WindowName = keyof typeof WINDOW_MS;

export interface RateLimitWindow {
  /** Requests that the window admits. */
  limit: number;
  /** Requests left in it. */
  remaining: number;
  /** When the next window begins, by the clock of this machine; at most a second and the time of the response late. */
  resetAt: Date;
}

/** The windows of the key. Responses to requests without a valid key have the minute only. */
export type RateLimit = Partial<Record<WindowName, RateLimitWindow>>;

/** Reads `RateLimit` and `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers). Undefined if the response is not the service's. */
export function parseRateLimit(headers: Headers): RateLimit | undefined {
  const windows: RateLimit = {};
  for (const name of ["minute", "day"] as const) {
    // Such as `r` in `"minute";r=59;t=42, "day";r=940;t=51233`. NaN if it is missing.
    const read = (header: string, parameter: string) =>
      Number(headers.get(header)?.match(`"${name}"[^,]*; *${parameter}=(\\d+)`)?.[1]);
    const limit = read("RateLimit-Policy", "q");
    const remaining = read("RateLimit", "r");
    // Relative, because clocks differ.
    const resetAt = new Date(Date.now() + read("RateLimit", "t") * 1000);
    if (limit + remaining + resetAt.getTime() > 0) windows[name] = { limit, remaining, resetAt };
  }
  return windows.minute && windows;
}

/** Of a Retry-After that can't be read. */
const UNREADABLE_MS = 5_000;

/** How long `Retry-After` says to wait, in ms (RFC 9110, section 10.2.3). The longest, if proxies have joined several. */
export function readRetryAfterMs(headers: Headers): number | undefined {
  const value = headers.get("Retry-After");
  if (value === null) return undefined;
  // Dates are by the clock of the server, and have a comma after the day of the week.
  const nowMs = Date.parse(headers.get("Date") ?? "") || Date.now();
  const waitsMs = value.split(/(?<!day|mon|tue|wed|thu|fri|sat|sun),/i).map((text) => {
    const each = text.trim();
    if (/^\d+(\.\d+)?\s?s?$/i.test(each)) return Number.parseFloat(each) * 1000;
    const date = each.replace(/(?<=\d)T/, " ");
    // The oldest form has no zone.
    const zone = /([+-]\d\d:?\d\d|[A-Z]+)$/i.test(date) ? "" : " GMT";
    // Date.parse also makes dates of other texts.
    const atMs = /\d:\d\d:\d\d/.test(date) ? Date.parse(date + zone) : Number.NaN;
    return Number.isNaN(atMs) ? UNREADABLE_MS : Math.max(0, atMs - nowMs);
  });
  return Math.max(...waitsMs);
}
