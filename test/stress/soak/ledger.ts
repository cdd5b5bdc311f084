// What one key, or one address, was let in and refused for, window by window, as its answers say; and whether that is what
// its limits promise. An answer belongs to the windows that its `RateLimit` header describes: what `t` counts seconds to is
// the end of a UTC minute or day, so rounding to the nearest one finds it, however slow the answer was.

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
  /** When each request was sent that was let in. */
  admittedSentAtMs: number[];
  /** How many were refused while this window was open, whichever window refused. */
  refused: number;
  /** When the first refusal came that this window was the reason of. */
  firstRefusalAtMs: number;
}

/** What a key's usage should show of a UTC day. */
export interface DayFigures {
  date: string;
  admitted: number;
  /** At least, and at most: the batch that begins a ban is answered as one, and only its first refusals count. */
  refused: [number, number];
}

export class Ledger {
  readonly #limits: Partial<Record<WindowName, number>>;
  readonly #windows = new Map<string, WindowOfTime>();
  /** The ends of bans, and of the minutes in which one began. */
  readonly #bans = new Set<number>();
  readonly #bannedMinutes = new Set<number>();
  /** Of refusals that no window is the reason of: what they said of the windows. */
  readonly #unexplained: string[] = [];
  admitted = 0;
  refused = 0;
  banned = 0;

  /** `limits`: an address has a minute only. */
  constructor(limits: Partial<Record<WindowName, number>>) {
    this.#limits = limits;
  }

  /** Enters an answer to a request that counts. */
  enter(answer: Answer): Outcome {
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
      // The end of a ban is rounded up to a second.
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
    if (!isExplained) this.#unexplained.push(headers.ratelimit ?? "");
    return "refused";
  }

  /** Looks whether the limits were kept, and nobody was refused before one was used up. */
  check(who: string, problems: Problems): void {
    for (const { name, endMs, limit, admittedSentAtMs, firstRefusalAtMs } of this.#windows.values()) {
      const window = `${who} in the ${name} to ${new Date(endMs).toISOString()}`;
      const { length: admitted } = admittedSentAtMs;
      problems.expect(admitted <= limit, "more than the limit", `${window}: ${admitted} of ${limit}`);
      // What was decided before the refusal was sent before the refusal came.
      const before = admittedSentAtMs.filter((sentAtMs) => sentAtMs <= firstRefusalAtMs).length;
      const wasUsedUp = firstRefusalAtMs === Number.POSITIVE_INFINITY || before >= limit;
      problems.expect(wasUsedUp, "refused too early", `${window}: after ${before} of ${limit}`);
    }
    for (const state of this.#unexplained) problems.add("refused with something left", `${who}: ${state}`);
    for (const endMs of this.#bannedMinutes) {
      const refused = this.#windows.get(nameOf("minute", endMs))?.refused ?? 0;
      const enough = refused + this.banned > this.#tolerated;
      problems.expect(enough, "banned too early", `${who}: after ${refused} refusals in the minute`);
    }
  }

  /** What the key's usage should show. */
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

  /** How often a limit was met. */
  get usedUpWindows(): number {
    return [...this.#windows.values()].filter((each) => each.admittedSentAtMs.length === each.limit).length;
  }

  /** A body says so; the answer to HEAD has none, but only a ban stands against a request for longer than a minute. */
  #isBan({ body, headers }: Answer, resetMs: number): boolean {
    if (body !== "") return body.includes("key_banned");
    const [, secondsOfMinute] = headers.ratelimit?.match(/"minute";r=0;t=(\d+)/) ?? [];
    return Number(secondsOfMinute) > WINDOW_SECONDS.minute || this.#bans.has(resetMs);
  }

  get #tolerated(): number {
    return Math.max(MIN_TOLERATED_REFUSALS, 3 * (this.#limits.minute ?? 0));
  }

  /** The windows that an answer describes, and what is left of each. */
  #windowsOf({ headers, sentAtMs, cameAtMs }: Answer): { window: WindowOfTime; left: number }[] {
    const described = headers.ratelimit?.matchAll(/"(minute|day)";r=(\d+);t=(\d+)/g) ?? [];
    return Array.from(described, ([, name, left, seconds]) => {
      // It was decided between sending and coming; `t` is rounded up.
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
