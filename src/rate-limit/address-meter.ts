// Counts by client address, for callers who have no valid key: in the isolate's memory, so that a flood costs neither a query
// nor an object call. Approximate by design: another isolate counts by itself, and memory is bounded, so a flood from very
// many addresses makes it forget the oldest of them.

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

/** A request, as far as it matters here. */
interface Headed {
  header(name: string): string | undefined;
}

/** Requests without a valid key. */
export const keylessRequests = new AddressMeter();

/** From where the requests of all other Workers come, whoever runs them. Cloudflare names their zone in CF-Worker. */
const WORKERS_ADDRESS = "2a06:98c0:3600::103";

/**
 * Who is counted as one client: an IPv4 address; the /64 network of an IPv6 address, which is what a single subscriber is
 * given; or the zone of a Worker. Cloudflare sets CF-Connecting-IP itself; without it all callers are one.
 */
export function clientAddress(request: Headed): string {
  const address = request.header("CF-Connecting-IP") ?? "unknown";
  if (address === WORKERS_ADDRESS) return `Workers of ${request.header("CF-Worker")}`;
  return address.includes(":") ? network(address, 4) : address;
}

/** What unknown keys are counted by: the client, and for an IPv6 address also its /48, because one site has many /64s. */
export function lookupBuckets(request: Headed): string[] {
  const client = clientAddress(request);
  return client.endsWith("::/64") ? [client, network(client, 3)] : [client];
}

/** The network that the first so many groups of an IPv6 address name (RFC 4291, section 2.2); `::` may hide some of them. */
function network(address: string, groups: number): string {
  const [head = "", tail] = address.toLowerCase().split("::");
  const before = head === "" ? [] : head.split(":");
  const after = tail === undefined || tail === "" ? [] : tail.split(":");
  const zeros = Array<string>(Math.max(0, 8 - before.length - after.length)).fill("0");
  return `${[...before, ...zeros, ...after].slice(0, groups).join(":")}::/${16 * groups}`;
}
