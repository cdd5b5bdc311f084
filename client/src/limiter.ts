// Admission: when a call may send its next request. The calls of a client share one queue, a bound on requests under way, and the limits.
//
// Entering the queue, being admitted and leaving it take constant time. Only the first call of the queue is admitted. It is woken when it
// becomes the first one, and when a request ends. In a Worker, one request must not resume another. There calls only poll, and those that
// a Worker has cancelled, which end without any exception, are forgotten when they are overdue.

import { type Closed, Limits } from "./limits.ts";
import type { Settings } from "./options.ts";
import type { RateLimit } from "./rate-limit.ts";
import { type Sleeper, sleep } from "./waits.ts";

function isWorker(): boolean {
  const { navigator } = globalThis as { navigator?: { userAgent?: string } };
  return navigator?.userAgent === "Cloudflare-Workers";
}

/** How often a call asks that nobody wakes, plus 1 ms for each call ahead. More often costs processor time, less often unused slots. */
const POLL_IN_WORKER_MS = 20;
/** Elsewhere polls only find out that a wait has become too long. */
const POLL_MS = 1_000;

/** A ticket that is later than this is taken for cancelled. If it was only late, it enters the queue again. */
const MAX_LATE_MS = 2_000;

/** The longest that a cancelled request holds a slot, if its time has no limit. */
const MAX_REQUEST_MS = 90_000;

export type AdmissionOptions = Pick<Settings, "pace" | "timeoutMs">;

/** A call that waits or has a request under way. */
export class Ticket {
  /** Of the queue: those ahead of it have lower numbers. */
  number = 0;
  previous: Ticket | undefined;
  next: Ticket | undefined;
  isQueued = false;
  /** Whether its request consumes nothing. */
  isFree = false;
  /** When it asks again, or when its request ends at the latest. It is overdue later. */
  dueMs = Infinity;
  /** Whether its request can have reached the service. */
  isSent = false;
  /** Whether its request counts as under way in the limits. */
  isUnanswered = false;
  #isWoken = false;
  readonly #sleeper: Sleeper = {};

  wake(): void {
    if (isWorker()) return;
    this.#isWoken = true;
    this.#sleeper.end?.();
  }

  /** Waits, unless it was woken since the last wait. */
  async sleep(timeMs: number, signal: AbortSignal | undefined): Promise<void> {
    if (!this.#isWoken) await sleep(timeMs, signal, this.#sleeper);
    this.#isWoken = false;
  }
}

/** A linked list. */
class Queue {
  first: Ticket | undefined;
  #last: Ticket | undefined;
  #entered = 0;
  #left = 0;

  enter(ticket: Ticket, isFirst: boolean): void {
    const [previous, next] = isFirst ? [undefined, this.first] : [this.#last, undefined];
    ticket.number = isFirst ? this.#left : this.#entered;
    this.#entered += 1;
    ticket.isQueued = true;
    this.#link(previous, ticket);
    this.#link(ticket, next);
  }

  leave(ticket: Ticket): void {
    if (!ticket.isQueued) return;
    this.#left += 1;
    ticket.isQueued = false;
    this.#link(ticket.previous, ticket.next);
  }

  /** How many tickets are ahead, at least: some of those behind it may have left. */
  ahead(ticket: Ticket): number {
    return ticket === this.first ? 0 : Math.max(1, ticket.number - this.#left);
  }

  #link(previous: Ticket | undefined, next: Ticket | undefined): void {
    if (previous) previous.next = next;
    else this.first = next;
    if (next) next.previous = previous;
    else this.#last = previous;
  }
}

/** In how long to ask again. `closed`: how long the request can't be sent for certain. */
export interface Wait {
  askAgainMs: number;
  closed?: Closed | undefined;
}

export class Limiter {
  readonly limits = new Limits();
  readonly #maxConcurrency: number;
  readonly #queue = new Queue();
  readonly #underway = new Set<Ticket>();
  #sweepMs = -Infinity;

  constructor(maxConcurrency: number) {
    this.#maxConcurrency = maxConcurrency;
  }

  /** Enters the queue: at the front if the call consumes nothing, or if its request is repeated. */
  enter(isFree: boolean, isRepeated: boolean): Ticket {
    const ticket = new Ticket();
    ticket.isFree = isFree;
    this.#queue.enter(ticket, isFree || isRepeated);
    return ticket;
  }

  /** Undefined: the request counts as under way. `ask`: the call must ask for the limits first. */
  admit(ticket: Ticket, nowMs: number, options: AdmissionOptions): Wait | "ask" | undefined {
    this.#forgetOverdue(nowMs);
    if (!ticket.isQueued) this.#queue.enter(ticket, false);
    const wait = this.#waitOf(ticket, nowMs, options.pace);
    const dueInMs = typeof wait === "object" ? wait.askAgainMs : Math.min(options.timeoutMs, MAX_REQUEST_MS);
    ticket.dueMs = nowMs + dueInMs;
    if (!wait) this.#start(ticket);
    return wait;
  }

  /** Starts a request that consumes nothing, without a wait. */
  startFree(): Ticket {
    const ticket = new Ticket();
    ticket.isFree = true;
    ticket.dueMs = performance.now() + MAX_REQUEST_MS;
    this.#start(ticket);
    return ticket;
  }

  /** Records the headers of a response. `rateLimit` is undefined if they are not the service's. */
  answer(ticket: Ticket, sentMs: number, rateLimit: RateLimit | undefined): void {
    if (!rateLimit) return;
    if (ticket.isUnanswered) this.limits.underway -= 1;
    ticket.isUnanswered = false;
    this.limits.answer(sentMs, rateLimit);
    this.#queue.first?.wake();
  }

  /** Leaves the queue, or ends the request. A request without a response may have been counted. */
  leave(ticket: Ticket): void {
    this.#queue.leave(ticket);
    this.#underway.delete(ticket);
    if (ticket.isUnanswered && ticket.isSent) this.limits.lose(performance.now());
    else if (ticket.isUnanswered) this.limits.underway -= 1;
    ticket.isUnanswered = false;
    this.#queue.first?.wake();
  }

  #waitOf(ticket: Ticket, nowMs: number, pace: boolean): Wait | "ask" | undefined {
    const { limits } = this;
    const ahead = this.#queue.ahead(ticket);
    const pollMs = (isWorker() ? POLL_IN_WORKER_MS : POLL_MS) + ahead;
    const isFull = this.#underway.size >= this.#maxConcurrency;
    if (ticket.isFree) return isFull ? { askAgainMs: pollMs } : undefined;
    const closed = limits.closed(ahead, nowMs);
    if (closed) {
      // Others are woken when they become the first one. In a Worker, nobody does that.
      const { nextMs, totalMs } = closed;
      const askAgainMs = ahead === 0 ? nextMs : isWorker() ? Math.min(nextMs, POLL_MS) : totalMs;
      return { closed, askAgainMs };
    }
    if (ahead > 0 || isFull) return { askAgainMs: pollMs };
    if (limits.isKnown ? limits.hasRoom(nowMs) : !pace) return undefined;
    // Their responses will show what is left.
    if (limits.underway > 0) return { askAgainMs: pollMs };
    const askInMs = limits.usageDueMs() - nowMs;
    if (askInMs <= 0) return "ask";
    return limits.isKnown ? { askAgainMs: askInMs } : undefined;
  }

  #start(ticket: Ticket): void {
    ticket.isUnanswered = !ticket.isFree;
    if (!ticket.isFree) this.limits.underway += 1;
    this.#underway.add(ticket);
    this.#queue.leave(ticket);
    this.#queue.first?.wake();
  }

  #forgetOverdue(nowMs: number): void {
    if (!isWorker()) return;
    const isOverdue = ({ dueMs }: Ticket) => dueMs + MAX_LATE_MS < nowMs;
    while (this.#queue.first && isOverdue(this.#queue.first)) this.#queue.leave(this.#queue.first);
    if (nowMs < this.#sweepMs) return;
    this.#sweepMs = nowMs + POLL_MS;
    for (const ticket of this.#underway) if (isOverdue(ticket)) this.leave(ticket);
  }
}
