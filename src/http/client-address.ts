// What requests without a valid key, and look-ups of unknown keys, are counted by.

/** A request, as far as it matters here. */
interface Headed {
  header(name: string): string | undefined;
}

/** The source address of the requests of all other Workers. Cloudflare names their zone in CF-Worker. */
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
