// What counts as one client, and the buckets of lookups of unknown keys.

import { expect, it } from "vitest";
import { clientAddress, lookupBuckets } from "../../src/limits/client-address.ts";

const from = (headers: Record<string, string>) => ({ header: (name: string) => headers[name] });

it.each([
  ["192.0.2.7", "192.0.2.7"],
  ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64", "2001:db8:1::/48"],
  ["2001:DB8:1:2::9", "2001:db8:1:2::/64", "2001:db8:1::/48"],
  ["2001:db8::", "2001:db8:0:0::/64", "2001:db8:0::/48"],
  ["2001:db8:0:1::1", "2001:db8:0:1::/64", "2001:db8:0::/48"],
  // Groups after `::` can belong to the network, and `::` can stand for none.
  ["1::3:4:5:6:7:8", "1:0:3:4::/64", "1:0:3::/48"],
  ["1:2::3:4:5:6:7:8", "1:2:3:4::/64", "1:2:3::/48"],
  ["::1", "0:0:0:0::/64", "0:0:0::/48"],
  ["::::", "0:0:0:0::/64", "0:0:0::/48"],
  ["1:2:3:4:5:6:7:8::9:10", "1:2:3:4::/64", "1:2:3::/48"],
  ["not an address", "not an address"],
])("%s counts as %s", (ip, ...buckets) => {
  const request = from({ "CF-Connecting-IP": ip });
  expect([clientAddress(request), lookupBuckets(request)]).toEqual([buckets[0], buckets]);
});

it("clients without an address count as one, and another Worker as its zone", () => {
  const worker = from({ "CF-Connecting-IP": "2a06:98c0:3600::103", "CF-Worker": "shop.example" });
  expect(lookupBuckets(worker)).toEqual(["Workers of shop.example"]);
  expect(lookupBuckets(from({}))).toEqual(["unknown"]);
});
