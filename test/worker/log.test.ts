// The log: one line for each request. That a line has no other fields keeps it free of what clients send. Every line of all tests is
// searched for secrets.

import { env } from "cloudflare:workers";
import { beforeEach, expect, it, vi } from "vitest";
import { HEADER } from "../../src/http/header-names.ts";
import { MESSAGES } from "../../src/http/messages.ts";
import { interceptStatements } from "../support/worker/bindings.ts";
import { type Client, fetchWithoutKey, newClient, REX } from "../support/worker/client.ts";
import { takeLogLines } from "../support/worker/log-lines.ts";
import { pass } from "../support/worker/time.ts";

let client: Client;

beforeEach(async () => {
  client = await newClient({ plan: "enterprise", limits: { minute: 5, day: 1 } });
});

/** Lines of other events may come from the background work of earlier tests. */
const takeRequests = () => takeLogLines().filter(({ event }) => event === "request");

const withId = (id: string) => ({ headers: { [HEADER.requestId]: id } });

it("a line names the request, its duration, the key, the result and the exhausted window", async () => {
  for (const name of ["KEYS_DB", "PETS_DB"] as const) {
    let statements = 0;
    interceptStatements(name, (run) => {
      statements += 1;
      // Later ones may be background work of earlier tests, or read the primary after a replica.
      if (statements === 1) pass(250);
      return run();
    });
  }
  await client.call("/v1/pets/999999999?token=s3cret", withId("request-1"));
  const retry = { seconds: 41_139, atMs: Date.UTC(2026, 10, 21) };
  const message = MESSAGES.rate_limit_exceeded.key(1, "day", retry);
  expect(await (await client.get("/v1/pets")).json()).toMatchObject({ message });
  const key = { keyId: client.id, plan: "enterprise", window: "day", remaining: 0 };
  const found = { requestId: "request-1", route: "/v1/pets/:petId", status: 404, ms: 500, code: "not_found" };
  const refused = { route: "/v1/pets", status: 429, ms: 0, code: "rate_limit_exceeded" };
  expect(takeRequests()).toEqual([
    { event: "request", method: "GET", ...key, ...found },
    { event: "request", method: "GET", ...key, ...refused, requestId: expect.any(String) },
  ]);
});

it.each([
  [{ colo: "FRA", country: "DE" }, "FRA DE"],
  [{ colo: "FRA", country: "T1", city: "Mainz" }, "FRA T1"],
  [{ colo: "FRA" }, "FRA "],
  [{}, " "],
  [{ colo: "Frankfurt", country: "Deutschland" }, " "],
  [{ colo: "fra", country: "1T" }, " "],
  [{ colo: ["FRA"], country: null }, " "],
])("a line says where the request came from, as Cloudflare does: %j", async (cf, logged) => {
  const claims = { "CF-IPCountry": "XX", "CF-Ray": "9a1b2c3d4e5f6071-AMS" };
  await fetchWithoutKey("/version", { cf, headers: claims } as RequestInit);
  expect(takeRequests().map(({ colo = "", country = "" }) => `${colo} ${country}`)).toEqual([logged]);
});

it("the line of a creation has the id of the pet, unless the response repeats an earlier one", async () => {
  const { postOnce } = await newClient();
  const [first] = [await postOnce(REX, "once"), await postOnce(REX, "once")];
  const { id } = await first.json<{ id: number }>();
  expect(takeRequests().map(({ petId }) => petId)).toEqual([`${id}`, undefined]);
});

const PREFLIGHT = { Origin: "https://shop.example", "Access-Control-Request-Method": "GET" };

it.each([
  ["HEAD", "/v1/pets", {}, "/v1/pets", 401],
  ["GET", "/v1/nowhere", {}, undefined, 401],
  ["DELETE", "/v1/pets", {}, undefined, 401],
  ["OPTIONS", "/v1/pets", PREFLIGHT, undefined, 204],
  ["GET", "/elsewhere", {}, undefined, 404],
])(
  "a request writes one line, with its route if it has one: %s %s",
  async (method, path, headers, route, status) => {
    await fetchWithoutKey(path, { method, headers });
    const lines = takeRequests().map((line) => [line.method, line.route, line.status]);
    expect(lines).toEqual([[method, route, status]]);
  },
);

it("of an internal error, the client gets the request ID only, and the log gets an error with the chain of causes", async () => {
  const [log, error] = [vi.spyOn(console, "log"), vi.spyOn(console, "error")];
  await env.PETS_DB.exec("ALTER TABLE pets RENAME TO lost_pets");
  const response = await client.call("/v1/pets/1", withId("request-4711"));
  await env.PETS_DB.exec("ALTER TABLE lost_pets RENAME TO pets");
  const message = MESSAGES.internal_error.fault("request-4711");
  expect(await response.json()).toEqual({ code: "internal_error", message, status: 500 });
  const cause = expect.stringMatching(/no such table: pets.*; caused by Error: no such table: pets/);
  const hint = expect.stringContaining("run ./petstore migrate");
  const stack = expect.stringMatching(/no such table: pets.*\n +at /);
  const failures = [{ event: "internal_error", cause, hint, stack }];
  expect(takeRequests()).toMatchObject([{ requestId: "request-4711", failure: "internal_error", failures }]);
  await client.get("/v1/nowhere");
  expect(takeLogLines().at(-1)).not.toHaveProperty("failures");
  expect([log.mock.calls.length, error.mock.calls.length]).toEqual([1, 1]);
});
