// The leases that an isolate requests, renews and releases. Times have an arbitrary origin.

import { expect, it } from "vitest";
import { HeldLeases } from "../../src/rate-limit/isolate/held-leases.ts";
import { LEASE_MS } from "../../src/rate-limit/protocol.ts";

const MINUTE_MS = 60_000;

/** The leases of a client after requests at these times. */
function seen(...timesMs: number[]): HeldLeases {
  const leases = new HeldLeases();
  for (const ms of timesMs) leases.recordArrival(ms);
  return leases;
}

/** A client that requested a lease of `size` at 1,000 ms and got it 20 ms later. */
function held(size: number): HeldLeases {
  const leases = seen(900, 1_000);
  leases.request("held", 1_000, 0);
  leases.add({ id: "held", size, grantedMs: 0, durationMs: LEASE_MS }, 1_000, 1_020);
  return leases;
}

it("a lease is requested after 50 ms of requests with gaps below 400 ms", () => {
  const isRequested = (...timesMs: number[]) =>
    seen(...timesMs).request("id", timesMs.at(-1) ?? 0, 0) !== undefined;
  const streaks = [
    [0, 50],
    [0, 20, 419],
  ].map((each) => isRequested(...each));
  // Too short, a gap, and a clock that has stepped back.
  const none = [[0], [0, 49], [0, 400], [0, 100, 500, 549], [100, 50]].map((each) => isRequested(...each));
  expect([new Set(streaks), new Set(none)]).toEqual([new Set([true]), new Set([false])]);
});

it("the first lease is for 4 requests and 200 ms, later ones for 1.5 times the rate since the last", () => {
  const requested = (requests: number, afterMs: number) => {
    const leases = seen(900, 1_000);
    expect(leases.request("first", 1_000, 0)).toEqual({ size: 4, durationMs: 200 });
    for (let request = 0; request < requests; request += 1) leases.recordArrival(1_000 + afterMs);
    return leases.request("next", 1_000 + afterMs, 0);
  };
  // 10 in 320 ms are 25 in 800.
  expect(requested(10, 320)).toEqual({ size: 38, durationMs: LEASE_MS });
  // At least four. A rate needs at least 50 ms.
  expect([requested(1, 399), requested(3, 0)].map((each) => each?.size)).toEqual([4, 72]);
});

it("a rate from long ago or from the future is ignored", () => {
  const requested = (...timesMs: number[]) => {
    const leases = held(8);
    for (const ms of timesMs) leases.recordArrival(ms);
    return leases.request("next", timesMs.at(-1) ?? 0, 0);
  };
  expect(requested(1_300, 1_600, 1_900, 2_200, 2_500, 2_599)?.durationMs).toBe(LEASE_MS);
  expect(requested(1_300, 1_600, 1_900, 2_200, 2_500, 2_600)).toEqual({ size: 4, durationMs: 200 });
  expect(requested(500, 600)).toEqual({ size: 4, durationMs: 200 });
});

it("a lease lasts at most half of the rest of the minute, and none is requested close to its end", () => {
  const durationMs = (leftMs: number) => seen(0, 100).request("id", 100, 2 * MINUTE_MS - leftMs)?.durationMs;
  expect([405, 404, 15, 14].map(durationMs)).toEqual([200, 199, 5, undefined]);
});

it("a lease is due for renewal when half of it is used, or 100 ms plus 1½ calls before its end", () => {
  const leases = held(4);
  leases.consume(1_000, 0);
  expect(leases.shouldRenew(1_000)).toBe(false);
  leases.consume(1_000, 0);
  expect(leases.shouldRenew(1_000)).toBe(true);
  expect([held(8).shouldRenew(1_669), held(8).shouldRenew(1_670)]).toEqual([false, true]);
  expect(new HeldLeases().shouldRenew(1_000)).toBe(false);
  // Only the newest lease counts.
  const both = held(4);
  both.add({ id: "newest", size: 8, grantedMs: 0, durationMs: LEASE_MS }, 1_000, 1_020);
  for (let request = 0; request < 3; request += 1) both.consume(1_000, 0);
  expect(both.shouldRenew(1_000)).toBe(false);
});

it("a lease admits its size, within its time and its minute, also if a clock steps", () => {
  const used = (grantedMs: number, minuteMs = 0) => {
    const leases = held(3);
    const results = Array.from({ length: 9 }, () => leases.consume(grantedMs, minuteMs));
    return [results.filter((isUsed) => isUsed).length, ...leases.ended];
  };
  const all = [3, { id: "held", unused: 0 }];
  const none = [0, { id: "held", unused: 3 }];
  expect([used(1_000), used(1_799)]).toEqual([all, all]);
  expect([used(999), used(1_800), used(1_000, MINUTE_MS)]).toEqual([none, none, none]);
});

it("the latest 100 ended leases are reported until they are acknowledged", () => {
  const leases = held(8);
  leases.end("held");
  leases.end("held");
  for (let lease = 1; lease <= 100; lease += 1) leases.endUnused(`${lease}`, lease);
  const reported = leases.ended;
  expect(reported).toEqual(
    Array.from({ length: 100 }, (_, index) => ({ id: `${index + 1}`, unused: index + 1 })),
  );
  leases.endUnused("next", 4);
  leases.acknowledge(reported);
  expect(leases.ended).toEqual([{ id: "next", unused: 4 }]);
});

it("a lease whose grant is still on its way counts as unused, but not one of another isolate", () => {
  const leases = held(8);
  leases.request("next", 1_000, 0);
  const lease = { size: 8, grantedMs: 0, durationMs: LEASE_MS };
  expect(["next", "other isolate"].map((id) => leases.unused({ ...lease, id }))).toEqual([8, 0]);
});
