// A few seconds of npm run bench -- geo: leases, the page cache and the prefetch save calls together, and the bench still runs the service.

import { expect, it } from "vitest";
import { mean } from "../../bench/measure/statistics.ts";
import { simulate } from "../../bench/simulation/geo.ts";

it("a busy key seldom waits for a call, and a quiet one seldom for a second call", {
  timeout: 0,
}, async () => {
  const { samples } = await simulate("petstore", 2, 8);
  const hops = (...purposes: string[]) =>
    mean(samples.filter(({ purpose }) => purposes.includes(purpose)).map((each) => each.hops));
  // Without leases 1.6, without the page cache 1.
  expect(hops("integrator")).toBeLessThan(0.3);
  // 2 if the object reads the key at each call.
  expect(hops("poller", "crawler")).toBeLessThan(1.6);
});
