// The admissions and refusals of one key by window, from the responses to its client, and checks of them against its limits and its
// usage. A response belongs to the windows in its `RateLimit` header: `t` counts seconds to the end of a UTC minute or day, so
// rounding to the nearest end finds the window, also for slow responses.
//
// A kill of the runtime loses what was leased at that moment and refusals of the last second, and requests under way may have been
// counted or not. Nothing else makes counts inexact.

import { HEADER } from "../../../src/http/header-names.ts";
import type { UsageDay } from "../../../src/keys/usage/usage-body.ts";
import { type Limits, WINDOW_SECONDS, type WindowName } from "../../../src/rate-limit/windows.ts";

/** The lease of the killed isolate is at most this share of the remaining requests. */
const LEASED_SHARE = 1 / 2;
/** An isolate reports its refusals after a second, and the call may take a while. */
const UNREPORTED_MS = 2_000;
/** A request or a lease may have been counted this long before a kill, in the window before. */
const LATE_MS = 1_000;

/** Records a failed check: `kind` is a sentence, `detail` describes the case. */
export type Expect = (holds: boolean, kind: string, detail: string) => void;

/** A response. Times are Unix time. */
export interface Answer {
  status: number;
  headers: Headers;
  body: string;
  sentAtMs: number;
  cameAtMs: number;
}

interface WindowRecord {
  name: WindowName;
  endMs: number;
  /** When each admitted request was sent. */
  admittedSentAtMs: number[];
  /** When the first refusal by this window arrived. */
  firstRefusalAtMs: number;
}

export class Ledger {
  readonly #limits: Limits;
  readonly #kills: readonly number[];
  readonly #expect: Expect;
  readonly #windows = new Map<string, WindowRecord>();
  /** The kills that interrupted requests, one for each request. */
  readonly #interruptions: number[] = [];
  readonly #refusedAtMs: number[] = [];
  admitted = 0;
  /** The requests that usage shows, but that were not admitted. It never decreases: a kill must not forget admissions. */
  lost = 0;

  /** `kills`: when the runtime was killed; the caller adds to it. */
  constructor(limits: Limits, kills: readonly number[], expect: Expect) {
    this.#limits = limits;
    this.#kills = kills;
    this.#expect = expect;
  }

  /** Records the response to a request that counts. Returns whether it was admitted. */
  record({ status, headers, body, sentAtMs, cameAtMs }: Answer): boolean {
    const described = headers.get(HEADER.rateLimit)?.matchAll(/"(minute|day)";r=(\d+);t=(\d+)/g) ?? [];
    const windows = Array.from(described, ([, name, left, seconds]) => {
      // The decision was made between sending and receiving; `t` is rounded up.
      const nearMs = (sentAtMs + cameAtMs) / 2 + Number(seconds) * 1000 - 500;
      return { window: this.#window(name as WindowName, nearMs), left };
    });
    if (status !== 429) {
      this.admitted += 1;
      for (const { window } of windows) window.admittedSentAtMs.push(sentAtMs);
      return true;
    }
    this.#refusedAtMs.push(cameAtMs);
    const resetMs = Number(headers.get(HEADER.rateLimitReset)) * 1000;
    const full = windows.filter(({ window, left }) => left === "0" && window.endMs === resetMs);
    this.#expect(full.length > 0, "a request was refused with requests left", body);
    for (const { window } of full) window.firstRefusalAtMs = Math.min(window.firstRefusalAtMs, cameAtMs);
    return false;
  }

  /** The window that ends next to `nearMs`. */
  #window(name: WindowName, nearMs: number): WindowRecord {
    const lengthMs = WINDOW_SECONDS[name] * 1000;
    const endMs = Math.round(nearMs / lengthMs) * lengthMs;
    const known = this.#windows.get(`${name} ${endMs}`);
    const window = known ?? { name, endMs, admittedSentAtMs: [], firstRefusalAtMs: Number.POSITIVE_INFINITY };
    this.#windows.set(`${name} ${endMs}`, window);
    return window;
  }

  /** Records a request that the latest kill left without a response. */
  interrupt(): void {
    this.#interruptions.push(...this.#kills.slice(-1));
  }

  get refused(): number {
    return this.#refusedAtMs.length;
  }

  /** The number of windows that refused requests. */
  get exhausted(): number {
    return [...this.#windows.values()].filter(({ firstRefusalAtMs }) => firstRefusalAtMs < Infinity).length;
  }

  /** Checks that no limit was exceeded, and that no request was refused before a limit was reached. */
  check(): void {
    for (const { name, endMs, admittedSentAtMs, firstRefusalAtMs } of this.#windows.values()) {
      const limit = this.#limits[name];
      const startMs = endMs - WINDOW_SECONDS[name] * 1000;
      const maxLost = this.#maxLost(this.#kills.filter((at) => startMs <= at && at <= endMs + LATE_MS));
      const window = `in the ${name} to ${new Date(endMs).toISOString()}`;
      const { length: admitted } = admittedSentAtMs;
      this.#expect(admitted <= limit, "a limit was exceeded", `${window}: ${admitted} of ${limit}`);
      // Requests decided before the refusal were sent before it arrived.
      const before = admittedSentAtMs.filter((sentAtMs) => sentAtMs <= firstRefusalAtMs).length;
      const wasReached = firstRefusalAtMs === Infinity || before + maxLost >= limit;
      const detail = `${window}: after ${before} of ${limit}, of which at most ${maxLost} are lost`;
      this.#expect(wasReached, "a request was refused too early", detail);
    }
  }

  /** Compares the usage with the responses. Call it after each kill and at the end, with no request under way. */
  checkUsage(usage: readonly UsageDay[]): void {
    const lost = usage.reduce((sum, { admitted }) => sum + admitted, -this.admitted);
    const maxLost = this.#maxLost(this.#kills);
    const isAdmitted = this.lost <= lost && lost <= maxLost;
    const detail = `${lost} more than admitted, ${this.lost} before, at most ${maxLost}`;
    this.#expect(isAdmitted, "usage shows a wrong number of admissions", detail);
    this.lost = lost;
    const more = usage.reduce((sum, { refused }) => sum + refused, -this.refused);
    const unreported = this.#refusedAtMs.filter((atMs) =>
      this.#kills.some((killedMs) => killedMs - UNREPORTED_MS < atMs && atMs <= killedMs + LATE_MS),
    ).length;
    const isRefused = more >= -unreported && more <= this.#interruptions.length;
    const refusals = `${more} more than refused, of ${this.refused}`;
    this.#expect(isRefused, "usage shows a wrong number of refusals", refusals);
  }

  /** What these kills may have lost: leases, and requests under way. */
  #maxLost(kills: readonly number[]): number {
    const leased = Math.floor(Math.min(this.#limits.minute, this.#limits.day) * LEASED_SHARE);
    return kills.length * leased + this.#interruptions.filter((atMs) => kills.includes(atMs)).length;
  }
}
