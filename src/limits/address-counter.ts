// Counts requests without a valid key by client address, in the isolate's memory: a flood costs neither a query nor an object
// call. The counts are approximate: each isolate has its own, and very many addresses evict the oldest.

import { BoundedMap } from "../lib/bounded-map.ts";
import { add, type Decision, type Outlook, rollOver, room, type Windows } from "./windows.ts";

/** Of an address, without a valid key. More: a guesser is faster; fewer: an office that shares an address gets a 429 instead of a 401. */
export const REQUESTS_PER_MINUTE = 60;
/** Together about 2 MB of the 128 that an isolate has. */
const MAX_ADDRESSES = 10_000;

const UNUSED: Windows = { minute: { seconds: 60, startMs: 0, used: 0, limit: REQUESTS_PER_MINUTE } };

export class AddressCounter {
  readonly #windows = new BoundedMap<string, Windows>(MAX_ADDRESSES);

  /** Counts one request of an address. */
  count(address: string, nowMs: number): Decision {
    const { admitted, windows } = this.peek(address, nowMs);
    const counted = add(windows, admitted ? 1 : 0);
    this.#windows.set(address, counted);
    return { admitted, by: "address", nowMs, windows: counted };
  }

  /** Whether the next request of an address is admitted. Counts nothing. */
  peek(address: string, nowMs: number): Outlook {
    const windows = rollOver(this.#windows.get(address) ?? UNUSED, nowMs);
    return { admitted: room(windows) > 0, nowMs, windows };
  }
}
