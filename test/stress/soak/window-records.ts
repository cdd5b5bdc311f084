// The admissions and refusals of one key or address by window, from its responses, and checks of them against its limits. A
// response belongs to the windows in its `RateLimit` header: `t` counts seconds to the end of a UTC minute or day, so rounding to
// the nearest end finds the window, also for slow responses.

import { BAN_MS, MIN_TOLERATED_REFUSALS } from "../../../src/rate-limit/object/quota.ts";
import { WINDOW_SECONDS, type WindowName } from "../../../src/rate-limit/windows.ts";
import type { Answer } from "./connections.ts";
import type { Problems } from "./problems.ts";

const DAY_MS = WINDOW_SECONDS.day * 1000;

export type Outcome = "admitted" | "refused" | "banned";

interface WindowOfTime {
  name: WindowName;
  endMs: number;
  limit: number;
  /** When each admitted request was sent. */
  admittedSentAtMs: number[];
  /** The number of refusals in this window, by any window. */
  refused: number;
  /** When the first refusal by this window arrived. */
  firstRefusalAtMs: number;
}

/** The expected usage of a UTC day. */
export interface DayFigures {
  date: string;
  admitted: number;
  /** Minimum and maximum: of the batch that starts a ban, only the first refusals count. */
  refused: [number, number];
}

export class WindowRecords {
  readonly #limits: Partial<Record<WindowName, number>>;
  readonly #windows = new Map<string, WindowOfTime>();
  /** The ends of bans, and of the minutes in which they began. */
  readonly #bans = new Set<number>();
  readonly #bannedMinutes = new Set<number>();
  /** The `RateLimit` headers of refusals that no exhausted window explains. */
  readonly #unexplainedRefusals: string[] = [];
  admitted = 0;
  refused = 0;
  banned = 0;

  /** `limits`: addresses have no limit per day. */
  constructor(limits: Partial<Record<WindowName, number>>) {
    this.#limits = limits;
  }

  /** Records the response to a request that counts. */
  record(answer: Answer): Outcome {
    const { status, headers } = answer;
    if (status !== 429) {
      this.admitted += 1;
      for (const { window } of this.#windowsOf(answer)) window.admittedSentAtMs.push(answer.sentAtMs);
      return "admitted";
    }
    const resetMs = Number(headers["x-ratelimit-reset"]) * 1000;
    if (this.#isBan(answer, resetMs)) {
      this.banned += 1;
      this.#bans.add(resetMs);
      // The end of a ban is rounded up to a whole second.
      this.#bannedMinutes.add(endOf("minute", resetMs - BAN_MS - 1));
      return "banned";
    }
    this.refused += 1;
    let isExplained = false;
    for (const { window, left } of this.#windowsOf(answer)) {
      window.refused += 1;
      if (left > 0 || window.endMs !== resetMs) continue;
      window.firstRefusalAtMs = Math.min(window.firstRefusalAtMs, answer.cameAtMs);
      isExplained = true;
    }
    if (!isExplained) this.#unexplainedRefusals.push(headers.ratelimit ?? "");
    return "refused";
  }

  /** Checks that no limit was exceeded, and that no request was refused before a limit was used up. */
  check(client: string, problems: Problems): void {
    for (const { name, endMs, limit, admittedSentAtMs, firstRefusalAtMs } of this.#windows.values()) {
      const window = `${client} in the ${name} to ${new Date(endMs).toISOString()}`;
      const { length: admitted } = admittedSentAtMs;
      problems.expect(admitted <= limit, "a limit was exceeded", `${window}: ${admitted} of ${limit}`);
      // Requests decided before the refusal were sent before it arrived.
      const before = admittedSentAtMs.filter((sentAtMs) => sentAtMs <= firstRefusalAtMs).length;
      const wasUsedUp = firstRefusalAtMs === Number.POSITIVE_INFINITY || before >= limit;
      problems.expect(wasUsedUp, "a request was refused too early", `${window}: after ${before} of ${limit}`);
    }
    for (const state of this.#unexplainedRefusals)
      problems.add("a request was refused with requests left", `${client}: ${state}`);
    for (const endMs of this.#bannedMinutes) {
      const refused = this.#windows.get(nameOf("minute", endMs))?.refused ?? 0;
      const enough = refused + this.banned > this.#tolerated;
      problems.expect(
        enough,
        "a key was banned too early",
        `${client}: after ${refused} refusals in the minute`,
      );
    }
  }

  /** The expected usage of the key. */
  days(): DayFigures[] {
    const dates = new Map<string, DayFigures>();
    for (const { name, endMs, admittedSentAtMs, refused } of this.#windows.values()) {
      const date = new Date(endMs - 1).toISOString().slice(0, 10);
      const day: DayFigures = dates.get(date) ?? { date, admitted: 0, refused: [0, 0] };
      const isBanned = this.#bannedMinutes.has(endMs);
      if (name === "day") day.admitted += admittedSentAtMs.length;
      else day.refused[0] += isBanned ? Math.max(refused, this.#tolerated) + 1 : refused;
      if (name === "minute") day.refused[1] += isBanned ? refused + this.banned : refused;
      dates.set(date, day);
    }
    return [...dates.values()];
  }

  /** The number of windows that were used up. */
  get usedUpWindows(): number {
    return [...this.#windows.values()].filter((each) => each.admittedSentAtMs.length === each.limit).length;
  }

  /** The body says so. A response to HEAD has no body, but only a ban exhausts the minute for more than 60 s. */
  #isBan({ body, headers }: Answer, resetMs: number): boolean {
    if (body !== "") return body.includes("key_banned");
    const [, secondsOfMinute] = headers.ratelimit?.match(/"minute";r=0;t=(\d+)/) ?? [];
    return Number(secondsOfMinute) > WINDOW_SECONDS.minute || this.#bans.has(resetMs);
  }

  get #tolerated(): number {
    return Math.max(MIN_TOLERATED_REFUSALS, 3 * (this.#limits.minute ?? 0));
  }

  /** The windows of a response, with the requests left in each. */
  #windowsOf({ headers, sentAtMs, cameAtMs }: Answer): { window: WindowOfTime; left: number }[] {
    const described = headers.ratelimit?.matchAll(/"(minute|day)";r=(\d+);t=(\d+)/g) ?? [];
    return Array.from(described, ([, name, left, seconds]) => {
      // The decision was made between sending and receiving; `t` is rounded up.
      const nearMs = (sentAtMs + cameAtMs) / 2 + Number(seconds) * 1000 - 500;
      return { window: this.#window(name as WindowName, nearMs), left: Number(left) };
    });
  }

  #window(name: WindowName, nearMs: number): WindowOfTime {
    const lengthMs = WINDOW_SECONDS[name] * 1000;
    const endMs = Math.round(nearMs / lengthMs) * lengthMs;
    const known = this.#windows.get(nameOf(name, endMs));
    if (known !== undefined) return known;
    const limit = this.#limits[name] ?? 0;
    const firstRefusalAtMs = Number.POSITIVE_INFINITY;
    const window = { name, endMs, limit, admittedSentAtMs: [], refused: 0, firstRefusalAtMs };
    this.#windows.set(nameOf(name, endMs), window);
    return window;
  }
}

function nameOf(name: WindowName, endMs: number): string {
  return `${name} ${endMs}`;
}

function endOf(name: WindowName, ms: number): number {
  const lengthMs = name === "day" ? DAY_MS : WINDOW_SECONDS.minute * 1000;
  return (Math.floor(ms / lengthMs) + 1) * lengthMs;
}
