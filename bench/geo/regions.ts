// Where the world's Workers are, and how far each is from its database's replica and from home: from the primary of the
// database and from the objects that count, all in Eastern North America.
//
// The regions are those of D1's replicas. Where in a region a Worker or a replica stands, nobody can tell beforehand; here
// each stands in a city of the source, and the replica in another one than the Worker, so that no hop is free.
//
// Each round trip is a cell of "Azure network round-trip latency statistics" by Microsoft: the row of the Worker's place,
// the column of the other. It is the 95th percentile of the probes of 30 days up to July 30, 2026, so it is nearer to the
// worst than to the middle; for all contestants alike. It was read in the page's source,
// github.com/mbender-ms/azure-docs, articles/networking/azure-network-latency.md, as of commit 5b3e2055eddead4c24aac48156dad9f006268126.

export const SOURCE = {
  title:
    "Microsoft, Azure network round-trip latency statistics, 30 days up to July 30, 2026, 95th percentile",
  url: "https://learn.microsoft.com/en-us/azure/networking/azure-network-latency",
} as const;

/** Where the primary and the objects are, in the words of the source. */
export const HOME = "East US 2";

/** A region, and round trips in milliseconds. Places have the names that the source gives them. */
export interface Region {
  name: string;
  title: string;
  worker: string;
  replica: string;
  toReplicaMs: number;
  toHomeMs: number;
}

export const REGIONS: readonly Region[] = [
  {
    name: "WNAM",
    title: "Western North America",
    worker: "West US",
    replica: "West US 3",
    toReplicaMs: 23,
    toHomeMs: 71,
  },
  {
    name: "ENAM",
    title: "Eastern North America",
    worker: "East US",
    replica: "East US 2",
    toReplicaMs: 11,
    toHomeMs: 11,
  },
  {
    name: "WEUR",
    title: "Western Europe",
    worker: "West Europe",
    replica: "Germany West Central",
    toReplicaMs: 14,
    toHomeMs: 94,
  },
  {
    name: "EEUR",
    title: "Eastern Europe",
    worker: "Poland Central",
    replica: "Austria East",
    toReplicaMs: 20,
    toHomeMs: 115,
  },
  {
    name: "APAC",
    title: "Asia-Pacific",
    worker: "Southeast Asia",
    replica: "East Asia",
    toReplicaMs: 40,
    toHomeMs: 232,
  },
  {
    name: "OC",
    title: "Oceania",
    worker: "Australia East",
    replica: "Australia Southeast",
    toReplicaMs: 16,
    toHomeMs: 224,
  },
];
