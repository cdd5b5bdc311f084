// The limits that a response describes (draft-ietf-httpapi-ratelimit-headers).

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

/** Reads `RateLimit` and `RateLimit-Policy`. Undefined if the response is not from the service. */
export function parseRateLimit(headers: Headers): RateLimit | undefined {
  const limits = pairs(headers, "RateLimit-Policy", "q");
  const remaining = pairs(headers, "RateLimit", "r");
  // Relative, because clocks differ.
  const seconds = pairs(headers, "RateLimit", "t");
  const windows: RateLimit = {};
  for (const name of ["minute", "day"] as const) {
    const [limit, left, wait] = [limits.get(name), remaining.get(name), seconds.get(name)];
    if (limit === undefined || left === undefined || wait === undefined) continue;
    windows[name] = { limit, remaining: left, resetAt: new Date(Date.now() + wait * 1000) };
  }
  return windows.minute && windows;
}

/** A parameter of each window: 59 and 940 for `r` in `"minute";r=59;t=42, "day";r=940;t=51233`. */
function pairs(headers: Headers, name: string, parameter: string): Map<string | undefined, number> {
  const pattern = new RegExp(`"(\\w+)"[^,]*;${parameter}=(\\d+)`, "g");
  const found = (headers.get(name) ?? "").matchAll(pattern);
  return new Map(Array.from(found, ([, window, value]) => [window, Number(value)]));
}
