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
