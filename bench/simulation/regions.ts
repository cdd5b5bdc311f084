// The regions of the simulation, and the round trips of each Worker: to the replica in its region, to the primary of the database,
// and to objects in each region.
//
// The regions are those of D1's replicas. Cloudflare does not say where in a region a Worker or a replica runs. Here each is in
// a location of the source, and the replica in another one than the Worker, so that no hop is free. Objects are where the Worker of
// their region is, but for a Worker of the same region as far as its replica. The primary is in East US 2.
//
// Each round trip is a cell of "Azure network round-trip latency statistics" by Microsoft: the row of the Worker's location, the
// column of the other one. It is the 95th percentile of probes over 30 days up to July 30, 2026, so it is nearer to the maximum
// than to the median, for all implementations. Read from the source of that page,
// github.com/mbender-ms/azure-docs, articles/networking/azure-network-latency.md, at commit 5b3e2055eddead4c24aac48156dad9f006268126.

/** The round trips of a Worker, in milliseconds. */
export interface RoundTrips {
  /** To the nearest replica. */
  toReplicaMs: number;
  toPrimaryMs: number;
  /** To objects in each region, in the order of REGIONS. */
  toObjectsMs: number[];
}

export interface Region extends RoundTrips {
  name: string;
}

export const REGIONS: readonly Region[] = [
  // Worker in West US, replica in West US 3.
  region("Western North America", 23, 71, [23, 72, 151, 167, 172, 142]),
  // Worker in East US, replica in East US 2.
  region("Eastern North America", 11, 11, [74, 11, 89, 104, 229, 207]),
  // Worker in West Europe, replica in Germany West Central.
  region("Western Europe", 14, 94, [153, 91, 14, 28, 182, 282]),
  // Worker in Poland Central, replica in Austria East.
  region("Eastern Europe", 20, 115, [168, 112, 28, 20, 201, 300]),
  // Worker in Southeast Asia, replica in East Asia.
  region("Asia-Pacific", 40, 232, [171, 229, 181, 202, 40, 98]),
  // Worker in Australia East, replica in Australia Southeast.
  region("Oceania", 16, 224, [141, 206, 282, 300, 98, 16]),
];

function region(name: string, toReplicaMs: number, toPrimaryMs: number, toObjectsMs: number[]): Region {
  return { name, toReplicaMs, toPrimaryMs, toObjectsMs };
}
