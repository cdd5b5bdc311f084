// What a client learns when something fails on our side, and what the log learns.

import { env } from "cloudflare:workers";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type ErrorBody, newClient } from "../support/worker/client.ts";
import { takeLogLines } from "../support/worker/log-lines.ts";

beforeAll(async () => {
  await env.DB.exec("ALTER TABLE pets RENAME TO lost_pets");
});

afterAll(async () => {
  await env.DB.exec("ALTER TABLE lost_pets RENAME TO pets");
});

it("a client learns the request id and nothing else; the log learns the cause", async () => {
  const client = await newClient();
  const response = await client.call("/v1/pets", { headers: { "X-Request-Id": "request-4711" } });
  expect(response.status).toBe(500);
  expect(await response.json<ErrorBody>()).toEqual({
    code: "internal_error",
    message: "internal error; if it persists, report request ID request-4711",
    status: 500,
  });
  const [line] = takeLogLines();
  expect(line).toMatchObject({
    requestId: "request-4711",
    status: 500,
    code: "internal_error",
    failures: [
      {
        event: "internal_error",
        cause: expect.stringContaining("no such table: pets"),
        hint: expect.stringContaining("run npm run migrate"),
        stack: expect.stringContaining("no such table: pets"),
      },
    ],
  });
});

it("an expected refusal is no failure", async () => {
  const client = await newClient();
  await client.get("/v1/pets?limit=0");
  await client.get("/v1/nowhere");
  for (const line of takeLogLines()) expect(line).not.toHaveProperty("failures");
});
