// Counts by client address, for callers who have no valid key: in the isolate's memory, so that a flood
// costs neither a query nor an object call. Approximate by design: another isolate counts by itself, and
// memory is bounded, so a flood from very many addresses makes it forget the oldest of them.

import { BoundedMap } from "../bounded-map.ts";
import { type Decision, peek, take, unusedWindow, type Window } from "./window.ts";

export const REQUESTS_PER_MINUTE = 60;

/** Together about 2 MB of the 128 that an isolate has. */
const MAX_ADDRESSES = 10_000;

export class AddressMeter {
  readonly #windows = new BoundedMap<string, Window>(MAX_ADDRESSES);

  /** Counts one request, or one try, of an address. */
  take(address: string, nowMs: number): Decision {
    const decision = take([this.#window(address)], nowMs);
    for (const window of decision.windows) this.#windows.set(address, window);
    return decision;
  }

  /** How an address stands, without counting anything. */
  peek(address: string, nowMs: number): Decision {
    return peek([this.#window(address)], nowMs);
  }

  #window(address: string): Window {
    return this.#windows.get(address) ?? unusedWindow("minute", REQUESTS_PER_MINUTE);
  }
}

/** Requests without a valid key. */
export const keylessRequests = new AddressMeter();

/**
 * Who is counted as one client: an IPv4 address, or the /64 network of an IPv6 address, which is what a
 * single subscriber is given. Cloudflare sets CF-Connecting-IP itself; without it all callers are one.
 */
export function clientAddress(request: { header(name: string): string | undefined }): string {
  const address = request.header("CF-Connecting-IP") ?? "unknown";
  return address.includes(":") ? network64(address) : address;
}

/** The first four groups of an IPv6 address (RFC 4291, section 2.2), which may hide in a `::`. */
function network64(address: string): string {
  const [head = "", tail] = address.toLowerCase().split("::");
  const before = head === "" ? [] : head.split(":");
  const after = tail === undefined || tail === "" ? [] : tail.split(":");
  const zeros = Array<string>(Math.max(0, 8 - before.length - after.length)).fill("0");
  return `${[...before, ...zeros, ...after].slice(0, 4).join(":")}::/64`;
}
