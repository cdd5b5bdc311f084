// The limits of the plans, what counts, and the refusal of a key that has used up its day. test/unit/windows.test.ts has the headers for all windows,
// openapi.test.ts those of the document's examples; all tests in workerd check that no response under /v1 lacks them.

import { expect, it, vi } from "vitest";
import { HEADER } from "../../src/http/header-names.ts";
import { MESSAGES } from "../../src/http/messages.ts";
import type { Plan } from "../../src/keys/plans.ts";
import type { Limits } from "../../src/rate-limit/windows.ts";
import { newClient } from "../support/worker/client.ts";

/** The limits of the contract: the compiler names a plan that is missing here. */
const CONTRACT: Record<Exclude<Plan, "enterprise">, Limits> = {
  free: { minute: 60, day: 1_000 },
  pro: { minute: 300, day: 10_000 },
  business: { minute: 1_000, day: 100_000 },
};

it.each(Object.entries(CONTRACT))("the plan %s has the limits %j", async (name, { minute, day }) => {
  const plan = name as keyof typeof CONTRACT;
  const { headers } = await (await newClient({ plan })).get("/v1/pets");
  expect(headers.get(HEADER.rateLimitPolicy)).toBe(`"minute";q=${minute};w=60, "day";q=${day};w=86400`);
});

it("every admitted request counts, whatever its status", async () => {
  const client = await newClient({ plan: "free" });
  for (const [response, status, remaining] of [
    [await client.get("/v1/pets"), 200, "59"],
    [await client.post("{"), 400, "58"],
    [await client.post("x", { "Content-Type": "text/plain" }), 415, "57"],
    [await client.get("/v1/nowhere"), 404, "56"],
    [await client.call("/v1/pets", { method: "DELETE" }), 405, "55"],
  ] as const)
    expect([response.status, response.headers.get(HEADER.rateLimitRemaining)]).toEqual([status, remaining]);
});

it("a key that has used up its day is refused until the day ends, and told so", async () => {
  const client = await newClient({ plan: "enterprise", limits: { minute: 9, day: 1 } });
  await client.get("/v1/pets");
  const refused = await client.get("/v1/pets");
  const midnightMs = Date.UTC(2026, 10, 21);
  const message = MESSAGES.rate_limit_exceeded.key(1, "day", { seconds: 41_140, atMs: midnightMs });
  expect(await refused.json()).toEqual({ code: "rate_limit_exceeded", message, status: 429 });
  expect(refused.headers.get(HEADER.rateLimit)).toBe('"minute";r=8;t=40, "day";r=0;t=41140');
  vi.setSystemTime(midnightMs);
  expect(await client.status()).toBe(404);
});
