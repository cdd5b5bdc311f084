// The regions of the simulation, and the round trips of each Worker: to the replica in its region, to the primary of the database,
// and to objects in each region.
//
// The regions are those of D1's replicas. Cloudflare does not say where in a region a Worker or a replica runs. Here each is in
// a location of the source, and the replica in another one than the Worker, so that no hop is free. Objects are where the Worker of
// their region is, but for a Worker of the same region as far as its replica.
//
// Each round trip is a cell of "Azure network round-trip latency statistics" by Microsoft: the row of the Worker's location, the
// column of the other one. It is the 95th percentile of probes over 30 days up to July 30, 2026, so it is nearer to the maximum
// than to the median, for all implementations. Read from the source of that page,
// github.com/mbender-ms/azure-docs, articles/networking/azure-network-latency.md, at commit 5b3e2055eddead4c24aac48156dad9f006268126.

export const SOURCE = {
  title:
    "Microsoft, Azure network round-trip latency statistics, 30 days up to July 30, 2026, 95th percentile",
  url: "https://learn.microsoft.com/en-us/azure/networking/azure-network-latency",
} as const;

/** The location of the primary, as the source names it. */
export const PRIMARY_REGION = "East US 2";

/** A region. `worker` and `replica` are locations as the source names them. */
export interface Region {
  name: string;
  title: string;
  worker: string;
  replica: string;
  toReplicaMs: number;
  toPrimaryMs: number;
  /** To objects in each region, in the order of REGIONS. */
  toObjectsMs: readonly number[];
}

export const REGIONS: readonly Region[] = [
  {
    name: "WNAM",
    title: "Western North America",
    worker: "West US",
    replica: "West US 3",
    toReplicaMs: 23,
    toPrimaryMs: 71,
    toObjectsMs: [23, 72, 151, 167, 172, 142],
  },
  {
    name: "ENAM",
    title: "Eastern North America",
    worker: "East US",
    replica: "East US 2",
    toReplicaMs: 11,
    toPrimaryMs: 11,
    toObjectsMs: [74, 11, 89, 104, 229, 207],
  },
  {
    name: "WEUR",
    title: "Western Europe",
    worker: "West Europe",
    replica: "Germany West Central",
    toReplicaMs: 14,
    toPrimaryMs: 94,
    toObjectsMs: [153, 91, 14, 28, 182, 282],
  },
  {
    name: "EEUR",
    title: "Eastern Europe",
    worker: "Poland Central",
    replica: "Austria East",
    toReplicaMs: 20,
    toPrimaryMs: 115,
    toObjectsMs: [168, 112, 28, 20, 201, 300],
  },
  {
    name: "APAC",
    title: "Asia-Pacific",
    worker: "Southeast Asia",
    replica: "East Asia",
    toReplicaMs: 40,
    toPrimaryMs: 232,
    toObjectsMs: [171, 229, 181, 202, 40, 98],
  },
  {
    name: "OC",
    title: "Oceania",
    worker: "Australia East",
    replica: "Australia Southeast",
    toReplicaMs: 16,
    toPrimaryMs: 224,
    toObjectsMs: [141, 206, 282, 300, 98, 16],
  },
];
