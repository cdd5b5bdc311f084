// The decisions about the requests of one key, from the responses to its client, and checks of them against its limits and its usage.
//
// A kill of the runtime loses what was reserved and leased at that moment and the latest refusals, and requests under way may have been
// counted or not. Nothing else makes counts inexact.

import type { ResponseEvent } from "../../../client/src/index.ts";
import { HEADER } from "../../../src/http/header-names.ts";
import { type Limits, WINDOWS, type WindowName } from "../../../src/keys/plans.ts";
import type { UsageDay } from "../../../src/keys/usage/usage-body.ts";
import { sum } from "../../../src/limits/windows.ts";

/** A decision, and the window that X-RateLimit-* describe: the one with fewer requests left. Times are Unix time. */
interface Decision {
  isAdmitted: boolean;
  sentAtMs: number;
  cameAtMs: number;
  name: WindowName;
  endMs: number;
}

/** The most that is reserved and leased, as a share of the limit. */
const MAX_LOST_SHARE = 0.3;

export class Ledger {
  readonly problems: string[] = [];
  readonly #limits: Limits;
  readonly #decisions: Decision[] = [];
  kills = 0;
  /** Requests that a kill has left without a response. */
  interrupted = 0;
  /** The requests that usage shows, but that were not admitted. It never decreases: a kill must not forget admissions. */
  lost = 0;
  /** The most of these that one kill has made, requests under way included, as a share of the limit per minute. */
  mostLostShare = 0;

  constructor(limits: Limits) {
    this.#limits = limits;
  }

  record(
    { status, headers, durationMs }: Pick<ResponseEvent, "status" | "headers" | "durationMs">,
    cameAtMs: number,
  ): void {
    const sentAtMs = cameAtMs - durationMs;
    const read = (header: string) => Number(headers[header.toLowerCase()]);
    const isAdmitted = status !== 429;
    const name = read(HEADER.rateLimitLimit) === this.#limits.day ? "day" : "minute";
    const endMs = read(HEADER.rateLimitReset) * 1000;
    const startMs = endMs - WINDOWS[name] * 1000;
    this.#expect(startMs <= cameAtMs && sentAtMs < endMs, `a response is about another ${name}`);
    this.#expect(isAdmitted || read(HEADER.rateLimitRemaining) === 0, "a refusal leaves requests");
    this.#decisions.push({ isAdmitted, name, endMs, sentAtMs, cameAtMs });
  }

  get admitted(): number {
    return this.#decisions.filter(({ isAdmitted }) => isAdmitted).length;
  }

  get refused(): number {
    return this.#decisions.length - this.admitted;
  }

  /** The number of windows that refused requests. */
  get exhausted(): number {
    return new Set(this.#decisions.flatMap(({ isAdmitted, endMs }) => (isAdmitted ? [] : endMs))).size;
  }

  /** Checks that no limit was exceeded, and that no request was refused before a limit was reached. */
  checkWindows(): void {
    const windows = Map.groupBy(
      this.#decisions,
      ({ name, endMs }) => `${name} to ${new Date(endMs).toJSON()}`,
    );
    for (const [window, [first]] of windows) if (first) this.#checkWindow(window, first);
  }

  #checkWindow(window: string, { name, endMs }: Decision): void {
    const limit = this.#limits[name];
    const startMs = endMs - WINDOWS[name] * 1000;
    const refused = this.#decisions.filter(
      (each) => !each.isAdmitted && each.name === name && each.endMs === endMs,
    );
    const firstRefusalMs = Math.min(...refused.map(({ cameAtMs }) => cameAtMs));
    // A day has its minutes too.
    const admitted = this.#decisions.filter(
      (each) => each.isAdmitted && startMs < each.endMs && each.endMs <= endMs,
    );
    this.#expect(
      admitted.length <= limit,
      `a limit was exceeded in the ${window}: ${admitted.length} of ${limit}`,
    );
    // Requests decided before the refusal were sent before it arrived.
    const before = admitted.filter(({ sentAtMs }) => sentAtMs <= firstRefusalMs).length;
    this.#expect(
      firstRefusalMs === Infinity || before + this.#maxLost >= limit,
      `a request was refused too early in the ${window}: after ${before} of ${limit}`,
    );
  }

  /** Compares usage with the responses. Call it after each kill and at the end, with no request under way. */
  checkUsage(usage: readonly UsageDay[]): void {
    const lost = usage.reduce((all, { admitted }) => all + admitted, -this.admitted);
    const isAdmitted = this.lost <= lost && lost <= this.#maxLost;
    this.#expect(
      isAdmitted,
      `usage shows ${lost} more than ${this.admitted} admissions, ${this.lost} before`,
    );
    this.mostLostShare = Math.max(this.mostLostShare, (lost - this.lost) / this.#limits.minute);
    this.lost = lost;
    const more = usage.reduce((all, { refusedBy }) => all + sum(refusedBy), -this.refused);
    const isRefused = (this.kills > 0 || more >= 0) && more <= this.interrupted;
    this.#expect(isRefused, `usage shows ${more} more than ${this.refused} refusals`);
  }

  /** What kills may have lost, with requests under way. */
  get #maxLost(): number {
    const { minute, day } = this.#limits;
    return this.interrupted + this.kills * Math.floor(Math.min(minute, day) * MAX_LOST_SHARE);
  }

  #expect(holds: boolean, problem: string): void {
    if (!holds) this.problems.push(problem);
  }
}
