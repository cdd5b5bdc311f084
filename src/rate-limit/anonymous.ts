// Counts by client address, for callers who have no valid key: in the isolate's memory, so that a flood costs neither a query
// nor an object call. Approximate by design: another isolate counts by itself, and memory is bounded, so a flood from very
// many addresses makes it forget the oldest of them.

import { BoundedMap } from "../lib/bounded-map.ts";
import { count, type Decision, peek, UNUSED_WINDOW, type Window } from "./windows.ts";

export const REQUESTS_PER_MINUTE = 60;
/** Together about 2 MB of the 128 that an isolate has. */
const MAX_ADDRESSES = 10_000;

export class AddressMeter {
  readonly #windows = new BoundedMap<string, Window>(MAX_ADDRESSES);

  /** Counts one request, or one try, of an address. */
  take(address: string, nowMs: number): Decision {
    const { admitted, windows } = this.peek(address, nowMs);
    const counted = count(windows, admitted ? 1 : 0, admitted ? 0 : 1);
    this.#windows.set(address, counted.minute);
    return { admitted, nowMs, windows: counted };
  }

  /** How an address stands, without counting anything. */
  peek(address: string, nowMs: number): Decision {
    const minute = this.#windows.get(address) ?? { ...UNUSED_WINDOW, limit: REQUESTS_PER_MINUTE };
    return peek({ minute }, nowMs);
  }
}

/** Requests without a valid key. */
export const keylessRequests = new AddressMeter();
