// The log: one line for each request, without secrets.

import { env } from "cloudflare:workers";
import { beforeEach, expect, it, vi } from "vitest";
import { HEADER } from "../../src/http/header-names.ts";
import { MESSAGES } from "../../src/http/messages.ts";
import { newSecret } from "../../src/keys/secret.ts";
import { revokeKey } from "../../src/operators/admin.ts";
import { interceptStatements } from "../support/worker/bindings.ts";
import { type Client, fetchWithoutKey, newClient, operator } from "../support/worker/client.ts";
import { takeLogLines } from "../support/worker/log-lines.ts";
import { pass } from "../support/worker/time.ts";

let client: Client;

beforeEach(async () => {
  client = await newClient({ plan: "free" });
});

const withId = (id: string) => ({ headers: { [HEADER.requestId]: id } });

it("a line names the request, its duration, the key, the result and the requests left", async () => {
  // The key's object needs one statement, and the pet two: at the replica and at the primary.
  for (const name of ["KEYS_DB", "PETS_DB"] as const) {
    interceptStatements(name, (run) => {
      pass(250);
      return run();
    });
  }
  await client.call("/v1/pets/999999999?token=s3cret", withId("request-1"));
  const sent = { requestId: "request-1", method: "GET", route: "/v1/pets/:petId" };
  const key = { keyId: client.id, plan: "free", window: "minute", remaining: 59 };
  const result = { status: 404, ms: 750, code: "not_found" };
  expect(takeLogLines()).toEqual([{ event: "request", ...sent, ...key, ...result }]);
});

it("each request writes one line, whatever its status", async () => {
  await client.call("/v1/pets", { method: "HEAD" });
  await client.create();
  await client.get("/v1/nowhere");
  await client.call("/v1/pets", { method: "DELETE" });
  await fetchWithoutKey("/v1/pets");
  const headers = { Origin: "https://shop.example", "Access-Control-Request-Method": "GET" };
  await fetchWithoutKey("/v1/pets", { method: "OPTIONS", headers });
  await fetchWithoutKey("/elsewhere");
  const summary = takeLogLines().map(({ method, route, status, code }) =>
    [method, route, status, code].join(" "),
  );
  expect(summary).toEqual([
    "HEAD /v1/pets 200 ",
    "POST /v1/pets 201 ",
    "GET  404 not_found",
    "DELETE  405 method_not_allowed",
    "GET /v1/pets 401 unauthorized",
    "OPTIONS  204 ",
    "GET  404 not_found",
  ]);
});

it("the message and the line of a 429 name the exhausted window; the line of a revoked key names no plan", async () => {
  const limited = await newClient({ plan: "enterprise", limits: { minute: 5, day: 1 } });
  await limited.get("/v1/pets");
  const retry = { seconds: 41_140, atMs: Date.UTC(2026, 10, 21) };
  const message = MESSAGES.rate_limit_exceeded.key(1, "day", retry);
  expect(await (await limited.get("/v1/pets")).json()).toMatchObject({ message });
  const refused = { status: 429, code: "rate_limit_exceeded", window: "day", remaining: 0 };
  expect(takeLogLines().at(-1)).toMatchObject(refused);

  await revokeKey(env.KEYS_DB, client.id, operator());
  await client.get("/v1/pets");
  const line = takeLogLines().at(-1);
  expect(line).toMatchObject({ keyId: client.id, status: 401, code: "unauthorized" });
  expect(line).not.toHaveProperty("plan");
});

it("the line of a failed request is an error with the chain of causes", async () => {
  const [log, error] = [vi.spyOn(console, "log"), vi.spyOn(console, "error")];
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
  await client.get("/v1/nowhere");
  takeLogLines();
  await env.PETS_DB.exec("ALTER TABLE pets RENAME TO lost_pets");
  const response = await client.call("/v1/pets/1", withId("request-4711"));
  await env.PETS_DB.exec("ALTER TABLE lost_pets RENAME TO pets");
  const message = MESSAGES.internal_error.fault("request-4711");
  expect(await response.json()).toEqual({ code: "internal_error", message, status: 500 });
  const cause = expect.stringContaining("no such table: pets");
  const hint = expect.stringContaining("run npx petstore migrate");
  const failures = [{ event: "internal_error", cause, hint, stack: cause }];
  expect(takeLogLines()).toMatchObject([{ requestId: "request-4711", code: "internal_error", failures }]);
});

it("the log has no keys, headers, bodies, queries or paths that a client sends", async () => {
  const { secret } = client;
  const unknown = newSecret(client.id);
  await client.post(`{"name":"Mark-name","categoryId":1}`);
  await client.post(`{"name":"Mark-name"`);
  await client.get(`/v1/pets?cursor=mark-query&key=${secret}`);
  await client.call("/v1/pets", { headers: { "X-Api-Key": secret, [HEADER.idempotencyKey]: "mark-header" } });
  await client.get(`/v1/pets/mark-path/${secret}`);
  for (const Authorization of ["Bearer mark-token", `Bearer ${unknown}`, `Basic ${secret}`])
    await fetchWithoutKey("/v1/pets", { headers: { Authorization } });
  const text = JSON.stringify(takeLogLines());
  expect(text).not.toMatch(/mark-/i);
  for (const each of [secret, unknown]) expect(text).not.toContain(each);
});
