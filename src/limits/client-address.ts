// The client address, by which requests without a valid key and look-ups of unknown keys are counted.

type WithHeaders = { header(name: string): string | undefined };

/** The source address of the requests of all other Workers. Cloudflare names their zone in CF-Worker. */
const WORKERS_ADDRESS = "2a06:98c0:3600::103";

/**
 * What counts as one client: an IPv4 address; the /64 of an IPv6 address, because a subscriber has a whole /64; or the zone of a
 * Worker. Cloudflare sets CF-Connecting-IP itself; without it all callers count as one client.
 */
export function clientAddress(request: WithHeaders): string {
  const address = request.header("CF-Connecting-IP") ?? "unknown";
  if (address === WORKERS_ADDRESS) return `Workers of ${request.header("CF-Worker")}`;
  return address.includes(":") ? network(address, 4) : address;
}

/** The buckets that unknown keys are counted in: the client, and the /48 of an IPv6 address, because one site has many /64s. */
export function lookupBuckets(request: WithHeaders): string[] {
  const client = clientAddress(request);
  return client.endsWith("::/64") ? [client, network(client, 3)] : [client];
}

/** The network of the first `groups` groups of an IPv6 address (RFC 4291, section 2.2); `::` may stand for some of them. */
function network(address: string, groups: number): string {
  const [head = "", tail] = address.toLowerCase().split("::");
  const before = head === "" ? [] : head.split(":");
  const after = tail === undefined || tail === "" ? [] : tail.split(":");
  const zeros = Array<string>(Math.max(0, 8 - before.length - after.length)).fill("0");
  return `${[...before, ...zeros, ...after].slice(0, groups).join(":")}::/${16 * groups}`;
}
