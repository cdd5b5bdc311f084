// What a client learns when something fails on our side, and what the log learns.

import { env } from "cloudflare:workers";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { type ErrorBody, newClient } from "./client.ts";

beforeAll(async () => {
  await env.DB.exec("ALTER TABLE pets RENAME TO lost_pets");
});

afterAll(async () => {
  await env.DB.exec("ALTER TABLE lost_pets RENAME TO pets");
});

it("a client learns the request id and nothing else; the log learns the cause", async () => {
  const log = vi.spyOn(console, "error").mockImplementation(() => {});
  const client = await newClient();
  const response = await client.call("/v1/pets", { headers: { "X-Request-Id": "request-4711" } });
  expect(response.status).toBe(500);
  expect(await response.json<ErrorBody>()).toEqual({
    code: "internal_error",
    message: "something failed on our side; if it lasts, report request request-4711",
    status: 500,
  });
  expect(log).toHaveBeenCalledTimes(1);
  const line = `${log.mock.calls[0]?.[0]}`;
  expect(JSON.parse(line)).toMatchObject({ event: "internal_error", requestId: "request-4711" });
  expect(JSON.parse(line).stack).toContain("no such table: pets");
  expect(JSON.parse(line).cause).toContain("no such table: pets");
  expect(line).not.toContain(client.secret);
});

it("an expected refusal is not logged", async () => {
  const log = vi.spyOn(console, "error");
  const client = await newClient();
  await client.get("/v1/pets?limit=0");
  await client.get("/v1/nowhere");
  expect(log).not.toHaveBeenCalled();
});
