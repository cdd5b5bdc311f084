// What Cloudflare does to the code of an isolate or an object, on virtual time: its clock moves only when something comes in, its timers end
// with their request, an isolate may be frozen or end, and requests that wait poll.

import { AsyncLocalStorage } from "node:async_hooks";
import { DeadlineExceeded } from "../../src/lib/deadline.ts";
import { nextPauseMs, type Runtime } from "../../src/lib/runtime.ts";
import type { Timeline } from "./timeline.ts";

/**
 * A request, with all that it has begun. Its clock moves only when something comes in: the last time at `ioMs`. Cloudflare cancels its timers
 * and calls at `endsMs`, 30 s after its response (both virtual time).
 */
type Context = { ioMs: number; endsMs: number };
const CONTEXT = new AsyncLocalStorage<Context>();
const CONTEXT_MS = 30_000;

/** What waits: an isolate, which may be frozen (virtual time), or a life of the object. */
export type Owner = { isAlive: boolean; frozenUntilMs?: number };

/** Runs what has come in for the request that runs now. */
type Resume = (run: () => unknown) => void;

/** A request that waits until a condition holds. */
type Waiting = {
  resume: Resume;
  isDone: () => boolean;
  resolve: () => void;
  waitedMs: number;
  maxMs: number;
};

export interface PlatformOptions {
  timerDelayMs?: () => number;
  /** Whether a call is cancelled with its request, so that neither its result nor its deadline is noticed. */
  isCancelled?: () => boolean;
  random?: () => number;
  /** Whether waiting requests poll, as in production; otherwise they check their condition after each event. */
  polls?: boolean;
}

export class Platform {
  /** The number of cancelled calls. */
  cancelled = 0;
  /** Whether a request has ended while it still waited for something, such as a report. */
  hasDropped = false;
  readonly #time: Timeline;
  readonly #options: PlatformOptions;
  readonly #onRejection: (error: unknown) => void;
  /** Requests that wait without polling, and those that poll next at a time. */
  readonly #waiting = new Set<Waiting>();
  readonly #polls = new Map<number, Waiting[]>();

  /** `onRejection` is told what work in the background has thrown. */
  constructor(time: Timeline, options: PlatformOptions, onRejection: (error: unknown) => void) {
    this.#time = time;
    this.#options = options;
    this.#onRejection = onRejection;
  }

  /** When something last came in for the request that runs now (virtual time). */
  get ioMs(): number {
    return CONTEXT.getStore()?.ioMs ?? this.#time.nowMs;
  }

  /** Handles a request in a context of its own. */
  request<Result>(owner: Owner, handle: () => Promise<Result>): Promise<Result> {
    const context = { ioMs: this.#time.nowMs, endsMs: Number.POSITIVE_INFINITY };
    return new Promise((resolve, reject) => {
      const run = async () => {
        await handle().then(resolve, reject);
        context.endsMs = this.#time.nowMs + CONTEXT_MS;
      };
      this.#resume(owner, context, () => CONTEXT.run(context, run));
    });
  }

  /** What the request that runs now waits for comes in through this. */
  resumeOf(owner: Owner): Resume {
    const context = CONTEXT.getStore();
    return (run) => this.#resume(owner, context, run);
  }

  /** Later if the owner is frozen, and not if it or the context has ended. */
  #resume(owner: Owner, context: Context | undefined, run: () => unknown): void {
    const { nowMs } = this.#time;
    if (!owner.isAlive) return;
    if (context !== undefined && nowMs >= context.endsMs) {
      this.hasDropped = true;
      return;
    }
    const { frozenUntilMs = 0 } = owner;
    if (nowMs < frozenUntilMs) {
      this.#time.after(frozenUntilMs - nowMs, () => this.#resume(owner, context, run));
      return;
    }
    if (context !== undefined) context.ioMs = nowMs;
    run();
  }

  /** The clock and timers of an isolate, or of a life of the object, whose calls are never cancelled. */
  runtimeOf(owner: Owner, now: () => number, isObject = false): Runtime {
    const wait = (ms: number) =>
      new Promise<void>((resolve) => {
        const resume = this.resumeOf(owner);
        const delayMs = this.#options.timerDelayMs?.() ?? 0;
        this.#time.after(ms + delayMs, () => resume(resolve));
      });
    return {
      now,
      wait,
      until: (isDone, maxMs) => {
        if (isObject) return Promise.reject(new Error("the object does not poll"));
        return this.#until(owner, isDone, maxMs);
      },
      withDeadline: (part, deadlineMs, work) => {
        const working = work();
        if (!isObject && this.#options.isCancelled?.()) {
          this.cancelled += 1;
          void working.catch(() => {});
          return new Promise(() => {});
        }
        const expired = wait(deadlineMs).then(() => {
          throw new DeadlineExceeded(part, deadlineMs);
        });
        return Promise.race([working, expired]);
      },
      random: () => this.#options.random?.() ?? 0.5,
      keepAlive: (work) => void work.catch(this.#onRejection),
    };
  }

  #until(owner: Owner, isDone: () => boolean, maxMs: number): Promise<void> {
    return new Promise((resolve) => {
      const resume = this.resumeOf(owner);
      const waiting = { resume, isDone, resolve, waitedMs: 0, maxMs };
      if (isDone()) resolve();
      else if (this.#options.polls === false) {
        this.#waiting.add(waiting);
        this.#time.after(maxMs, () => this.#waiting.delete(waiting) && resume(resolve));
      } else this.#pollLater(waiting);
    });
  }

  #pollLater(waiting: Waiting): void {
    const pauseMs = nextPauseMs(waiting.waitedMs, waiting.maxMs);
    waiting.waitedMs += pauseMs;
    const atMs = this.#time.nowMs + Math.ceil(pauseMs);
    const others = this.#polls.get(atMs);
    if (others !== undefined) {
      others.push(waiting);
      return;
    }
    const all = [waiting];
    this.#polls.set(atMs, all);
    this.#time.after(pauseMs, () => {
      this.#polls.delete(atMs);
      for (const each of all)
        each.resume(() => {
          if (each.waitedMs >= each.maxMs || each.isDone()) each.resolve();
          else this.#pollLater(each);
        });
    });
  }

  /** Resumes the requests that do not poll and whose condition holds. Returns whether there was one. */
  resumeDone(): boolean {
    const done = [...this.#waiting].filter(({ isDone }) => isDone());
    for (const each of done) {
      this.#waiting.delete(each);
      each.resume(each.resolve);
    }
    return done.length > 0;
  }
}
