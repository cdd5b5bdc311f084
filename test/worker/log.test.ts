// The log: one line for each request, without secrets.

import { env } from "cloudflare:workers";
import { expect, it, vi } from "vitest";
import { HEADER } from "../../src/http/header-names.ts";
import { MESSAGES } from "../../src/http/messages.ts";
import { newSecret } from "../../src/keys/secret.ts";
import { revokeKey } from "../../src/operators/admin.ts";
import { fetchWithoutKey, newClient, newKey, operator, pass, withoutPets } from "../support/worker/client.ts";
import { interceptStatements } from "../support/worker/database-stub.ts";
import { takeLogLines, trackSecret } from "../support/worker/log-lines.ts";

it("a line names the request, its duration, the key, the result and the requests left", async () => {
  const client = await newClient({ plan: "free" });
  // The key's object needs one statement, and the pet two: at the replica and at the primary.
  for (const name of ["KEYS_DB", "PETS_DB"] as const) {
    interceptStatements(name, (run) => {
      pass(250);
      return run();
    });
  }
  await client.call("/v1/pets/999999999?token=s3cret", { headers: { [HEADER.requestId]: "request-1" } });
  expect(takeLogLines()).toEqual([
    {
      event: "request",
      requestId: "request-1",
      method: "GET",
      route: "/v1/pets/:petId",
      status: 404,
      ms: 750,
      keyId: client.id,
      plan: "free",
      window: "minute",
      remaining: 59,
      code: "not_found",
    },
  ]);
});

it("each request writes one line, whatever its status", async () => {
  const client = await newClient({ plan: "enterprise", limits: { minute: 9, day: 90 } });
  await client.get("/v1/pets");
  await client.call("/v1/pets", { method: "HEAD" });
  await client.create();
  await client.get("/v1/usage");
  await client.get("/v1/nowhere");
  await client.call("/v1/pets", { method: "DELETE" });
  await client.post("{");
  await fetchWithoutKey("/v1/pets");
  await fetchWithoutKey("/v1/pets", {
    method: "OPTIONS",
    headers: { Origin: "https://shop.example", "Access-Control-Request-Method": "GET" },
  });
  await fetchWithoutKey("/elsewhere");
  const summary = takeLogLines().map(({ method, route, status, code }) => [method, route, status, code]);
  expect(summary).toEqual([
    ["GET", "/v1/pets", 200, undefined],
    ["HEAD", "/v1/pets", 200, undefined],
    ["POST", "/v1/pets", 201, undefined],
    ["GET", "/v1/usage", 200, undefined],
    ["GET", undefined, 404, "not_found"],
    ["DELETE", undefined, 405, "method_not_allowed"],
    ["POST", "/v1/pets", 400, "invalid_request"],
    ["GET", "/v1/pets", 401, "unauthorized"],
    ["OPTIONS", undefined, 204, undefined],
    ["GET", undefined, 404, "not_found"],
  ]);
});

it("the line of a 429 names the exhausted window, that of a revoked key no plan", async () => {
  const client = await newClient({ plan: "enterprise", limits: { minute: 5, day: 1 } });
  await client.get("/v1/pets");
  await client.get("/v1/pets");
  const refused = { status: 429, code: "rate_limit_exceeded", window: "day", remaining: 0 };
  expect(takeLogLines().at(-1)).toMatchObject(refused);

  const { id, secret } = await newKey();
  await revokeKey(env.KEYS_DB, id, operator());
  await fetchWithoutKey("/v1/pets", { headers: { Authorization: `Bearer ${secret}` } });
  const line = takeLogLines().at(-1);
  expect(line).toMatchObject({ keyId: id, status: 401, code: "unauthorized" });
  expect(line).not.toHaveProperty("plan");
});

it("the line of a failed request is an error with the chain of causes", async () => {
  const [log, error] = [vi.spyOn(console, "log"), vi.spyOn(console, "error")];
  const client = await newClient();
  await client.get("/v1/nowhere");
  expect([log.mock.calls.length, error.mock.calls.length]).toEqual([1, 0]);
  expect(takeLogLines().at(-1)).not.toHaveProperty("failures");
  vi.spyOn(env.API_KEYS, "getByName").mockImplementation(() => {
    throw new Error("out of order", { cause: new Error("no power") });
  });
  await client.get("/v1/nowhere");
  expect([log.mock.calls.length, error.mock.calls.length]).toEqual([1, 1]);
  expect(takeLogLines().at(-1)).toMatchObject({
    failure: "limiter_unavailable",
    failures: [{ event: "limiter_unavailable", cause: "Error: out of order; caused by Error: no power" }],
  });
});

it("of an internal error, the client gets the request ID only, and the log gets the cause", async () => {
  const client = await newClient();
  await client.get("/v1/nowhere");
  takeLogLines();
  const init = { headers: { [HEADER.requestId]: "request-4711" } };
  const response = await withoutPets(() => client.call("/v1/pets/1", init));
  expect(await response.json()).toEqual({
    code: "internal_error",
    message: MESSAGES.internal_error.fault("request-4711"),
    status: 500,
  });
  const cause = expect.stringContaining("no such table: pets");
  const hint = expect.stringContaining("run npx petstore migrate");
  expect(takeLogLines()).toMatchObject([
    {
      requestId: "request-4711",
      status: 500,
      code: "internal_error",
      failures: [{ event: "internal_error", cause, hint, stack: cause }],
    },
  ]);
});

it("the log has no keys, headers, bodies, queries or paths that a client sends", async () => {
  const client = await newClient();
  const { secret } = client;
  const unknown = newSecret(client.id);
  trackSecret(unknown);
  const marks = ["Mark-name", "mark-query", "mark-header", "mark-path", "mark-token"];
  await client.post(`{"name":"Mark-name","categoryId":1}`);
  await client.post(`{"name":"Mark-name"`);
  await client.get(`/v1/pets?cursor=mark-query&key=${secret}`);
  await client.call("/v1/pets", { headers: { "X-Api-Key": secret, [HEADER.idempotencyKey]: "mark-header" } });
  await client.get(`/v1/pets/mark-path/${secret}`);
  await fetchWithoutKey("/v1/pets", { headers: { Authorization: "Bearer mark-token" } });
  await fetchWithoutKey("/v1/pets", { headers: { Authorization: `Bearer ${unknown}` } });
  await fetchWithoutKey("/v1/pets", { headers: { Authorization: `Basic ${secret}` } });
  const text = JSON.stringify(takeLogLines());
  for (const mark of [secret, unknown, ...marks]) expect(text).not.toContain(mark);
});
