// Admission: when a call may send its next request. The calls of a client share a queue, a bound on requests under way, and the limits.
//
// All of it takes constant time. Only the first call is admitted: one that consumes nothing, then one whose request is repeated, then the
// others. It is woken when it becomes the first one, and when a request ends. In a Worker, one request must not resume another. There calls
// poll, and those that the Worker has cancelled, which end without any exception, are forgotten when they are overdue.

import { type Closed, Limits } from "./limits.ts";
import type { Settings } from "./options.ts";
import type { RateLimit } from "./rate-limit.ts";
import { now, type Sleeper, sleep } from "./waits.ts";

/** How often a call asks that nobody wakes, plus 1 ms for each call ahead. More often costs processor time, less often unused slots. */
const POLL_IN_WORKER_MS = 20;
/** Elsewhere polls only find out that a wait has become too long. */
const POLL_MS = 1_000;

/** A ticket that is later than this is taken for cancelled. If it was only late, it enters the queue again. */
const MAX_LATE_MS = 2_000;

/** How many calls are woken at once, so that the event loop does not stand still. */
const WOKEN_AT_ONCE = 500;

/** The longest that a cancelled request holds a slot, if its time has no limit. */
const MAX_REQUEST_MS = 90_000;

/** A call that waits or has a request under way. */
export class Ticket implements Sleeper {
  /** Tickets ahead of it in its queue have lower numbers. */
  number = 0;
  previous: Ticket | undefined;
  next: Ticket | undefined;
  /** Where it waits. */
  queue: Queue | undefined;
  /** When it asks again, or when its request ends at the latest. */
  dueMs: number = Infinity;
  /** Whether its request can have reached the service. */
  isSent = false;
  /** Whether its request counts as under way in the limits. */
  isUnanswered = false;
  /** Whether its request consumes nothing. */
  isFree = false;
  wake?: () => void;
}

/** A linked list. */
class Queue {
  first: Ticket | undefined;
  size = 0;
  #last: Ticket | undefined;
  #entered = 0;

  enter(ticket: Ticket): void {
    ticket.number = this.#entered++;
    ticket.queue = this;
    this.size += 1;
    this.#link(this.#last, ticket);
    this.#link(ticket, undefined);
  }

  leave(ticket: Ticket): void {
    ticket.queue = undefined;
    this.size -= 1;
    this.#link(ticket.previous, ticket.next);
  }

  /** How many tickets are ahead, at least: some of those behind it may have left. */
  ahead(ticket: Ticket): number {
    return ticket === this.first ? 0 : Math.max(1, ticket.number - (this.#entered - this.size));
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
  closed?: Closed;
}

export class Limiter {
  readonly limits: Limits = new Limits();
  readonly #maxConcurrency: number;
  /** First those that consume nothing, then those whose request is repeated, then the others. */
  readonly #queues = { free: new Queue(), repeated: new Queue(), others: new Queue() };
  readonly #underway = new Set<Ticket>();
  #sweepMs = -Infinity;

  constructor(maxConcurrency: number) {
    this.#maxConcurrency = maxConcurrency;
  }

  enter(isFree: boolean, isRepeated: boolean): Ticket {
    const ticket = new Ticket();
    ticket.isFree = isFree;
    this.#queues[isFree ? "free" : isRepeated ? "repeated" : "others"].enter(ticket);
    return ticket;
  }

  /** Undefined: the request counts as under way. `ask`: the call must ask for the limits first. */
  admit(
    ticket: Ticket,
    nowMs: number,
    { pace, timeoutMs }: Pick<Settings, "pace" | "timeoutMs">,
  ): Wait | "ask" | undefined {
    if (isWorker()) this.#forgetOverdue(nowMs);
    if (!ticket.queue) this.#queues.others.enter(ticket);
    const wait = this.#waitOf(ticket, nowMs, pace);
    const dueInMs = typeof wait === "object" ? wait.askAgainMs : Math.min(timeoutMs, MAX_REQUEST_MS);
    ticket.dueMs = nowMs + dueInMs;
    if (!wait) this.#start(ticket);
    return wait;
  }

  /** Starts a request that consumes nothing, without a wait. */
  startFree(): Ticket {
    const ticket = new Ticket();
    ticket.isFree = true;
    ticket.dueMs = now() + MAX_REQUEST_MS;
    this.#start(ticket);
    return ticket;
  }

  /** Records the headers of a response. `rateLimit` is undefined if they are not the service's. */
  answer(ticket: Ticket, sentMs: number, rateLimit: RateLimit | undefined): void {
    this.limits.isAnswered = true;
    if (!rateLimit) return;
    const wasKnown = this.limits.isKnown;
    this.limits.answer(sentMs, rateLimit, ticket.isUnanswered);
    ticket.isUnanswered = false;
    this.#wakeFirst();
    // Now each of them knows whether its wait is too long.
    if (!wasKnown && this.limits.isKnown && !isWorker()) void this.#wakeAll();
  }

  /** Leaves the queue, or ends the request. A request without a response may have been counted. */
  leave(ticket: Ticket): void {
    ticket.queue?.leave(ticket);
    this.#underway.delete(ticket);
    if (ticket.isUnanswered) this.limits.underway -= 1;
    if (ticket.isUnanswered && ticket.isSent) this.limits.lose(now());
    ticket.isUnanswered = false;
    this.#wakeFirst();
  }

  #waitOf(ticket: Ticket, nowMs: number, pace: boolean): Wait | "ask" | undefined {
    const { limits } = this;
    const { queue } = ticket;
    const { repeated, others } = this.#queues;
    const ahead = (queue?.ahead(ticket) ?? 0) + (queue === others ? repeated.size : 0);
    const poll = { askAgainMs: (isWorker() ? POLL_IN_WORKER_MS : POLL_MS) + ahead };
    const isFull = this.#underway.size >= this.#maxConcurrency;
    if (ticket.isFree) return isFull ? poll : undefined;
    const closed = limits.closed(ahead, nowMs);
    if (closed) {
      const mustPoll = isWorker() && ahead + limits.underway > 0;
      // Many may be admitted at the same time: each is woken when it becomes the first one.
      return { closed, askAgainMs: mustPoll ? Math.min(closed.nextMs, POLL_MS) : closed.totalMs + ahead };
    }
    if (ticket !== this.#first() || isFull) return poll;
    if ((limits.isKnown || !pace) && limits.hasRoom(nowMs)) {
      const spreadMs = limits.spreadMs(nowMs);
      return spreadMs > 0 ? { askAgainMs: Math.ceil(spreadMs) } : undefined;
    }
    // Their responses will show what is left.
    if (limits.underway > 0) return poll;
    const askInMs = limits.usageDueMs() - nowMs;
    if (askInMs <= 0) return "ask";
    // A window may begin earlier.
    return limits.isKnown ? { askAgainMs: Math.min(askInMs, poll.askAgainMs) } : undefined;
  }

  #start(ticket: Ticket): void {
    ticket.isUnanswered = !ticket.isFree;
    if (!ticket.isFree) this.limits.send();
    this.#underway.add(ticket);
    ticket.queue?.leave(ticket);
    this.#wakeFirst();
  }

  #first(): Ticket | undefined {
    const { free, repeated, others } = this.#queues;
    return free.first ?? repeated.first ?? others.first;
  }

  #wakeFirst(): void {
    if (!isWorker()) this.#first()?.wake?.();
  }

  async #wakeAll(): Promise<void> {
    let count = 0;
    // One that has left the queue meanwhile still leads to those behind it.
    for (const { first } of Object.values(this.#queues))
      for (let ticket = first; ticket; ticket = ticket.next) {
        ticket.wake?.();
        if (++count % WOKEN_AT_ONCE === 0) await sleep(1, undefined);
      }
  }

  #forgetOverdue(nowMs: number): void {
    const isOverdue = ({ dueMs }: Ticket) => dueMs + MAX_LATE_MS < nowMs;
    for (const queue of Object.values(this.#queues)) {
      while (queue.first && isOverdue(queue.first)) queue.leave(queue.first);
    }
    if (nowMs < this.#sweepMs) return;
    this.#sweepMs = nowMs + POLL_MS;
    for (const ticket of this.#underway) if (isOverdue(ticket)) this.leave(ticket);
  }
}

function isWorker(): boolean {
  const { navigator } = globalThis as { navigator?: { userAgent?: string } };
  return navigator?.userAgent === "Cloudflare-Workers";
}
