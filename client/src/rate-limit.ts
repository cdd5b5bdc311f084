// What the headers of a response say about limits and waits.

export interface RateLimitWindow {
  /** Requests that the window admits. */
  limit: number;
  /** Requests left in it. */
  remaining: number;
  /** When the next window begins, by the clock of this machine; at most a second and the time of the response late. */
  resetAt: Date;
  /** How long the window is, in ms. */
  lengthMs: number;
}

/** The windows of the key by name, such as `minute` and `day`. Responses to requests without a valid key have one only. */
export type RateLimit = Record<string, RateLimitWindow>;

/** Reads `RateLimit` and `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers). Undefined if the response is not the service's. */
export function parseRateLimit(headers: Headers): RateLimit | undefined {
  const windows: RateLimit = {};
  const states = itemsOf(headers.get("RateLimit"));
  for (const [name, { q: limit = Number.NaN, w = Number.NaN }] of itemsOf(headers.get("RateLimit-Policy"))) {
    const { r: remaining = Number.NaN, t = Number.NaN } = states.get(name) ?? {};
    // Relative, because clocks differ.
    const resetAt = new Date(Date.now() + t * 1000);
    const window = { limit, remaining, resetAt, lengthMs: w * 1000 };
    if (limit + remaining + resetAt.getTime() + w > 0) windows[name] = window;
  }
  return Object.keys(windows).length > 0 ? windows : undefined;
}

/** The items of a list of strings with numbers as parameters (RFC 9651), such as `"minute";r=59;t=42, "day";r=940;t=51233`. */
function itemsOf(list: string | null): Map<string, Record<string, number>> {
  const items = new Map<string, Record<string, number>>();
  for (const [, name = "", parameters = ""] of (list ?? "").matchAll(/"([^"]*)"([^,"]*)/g)) {
    const all = parameters.matchAll(/; *(\w+)=(\d+)/g);
    items.set(name, Object.fromEntries(Array.from(all, ([, key = "", value]) => [key, Number(value)])));
  }
  return items;
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
