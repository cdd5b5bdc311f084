// Error messages, and what the client and the log get of an internal error.

import { env } from "cloudflare:workers";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { ErrorCode } from "../../src/http/errors.ts";
import { FIELD_PROBLEMS, MESSAGES } from "../../src/http/messages.ts";
import { type ErrorBody, newClient } from "../support/worker/client.ts";
import { takeLogLines } from "../support/worker/log-lines.ts";

beforeAll(async () => {
  await env.DB.exec("ALTER TABLE pets RENAME TO lost_pets");
});

afterAll(async () => {
  await env.DB.exec("ALTER TABLE lost_pets RENAME TO pets");
});

it("the client gets the request ID only, the log gets the cause", async () => {
  const client = await newClient();
  const response = await client.call("/v1/pets", { headers: { "X-Request-Id": "request-4711" } });
  expect(response.status).toBe(500);
  expect(await response.json<ErrorBody>()).toEqual({
    code: "internal_error",
    message: MESSAGES.internal_error.fault("request-4711"),
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

const RETRY = { seconds: 40, atMs: Date.UTC(2026, 10, 20, 12, 35) };
/** One message of each code. */
const LITERALS: Record<ErrorCode, [message: string, literal: string]> = {
  invalid_request: [MESSAGES.invalid_request.field("name", FIELD_PROBLEMS.required), "name: is required"],
  unauthorized: [MESSAGES.unauthorized.unknown, "invalid API key"],
  not_found: [MESSAGES.not_found.pet, "no pet has this ID"],
  method_not_allowed: [
    MESSAGES.method_not_allowed.method("DELETE", ["GET", "HEAD", "POST"]),
    "DELETE is not allowed; use GET, HEAD or POST",
  ],
  operation_removed: [
    MESSAGES.operation_removed.getPet("Thu, 05 Dec 2030 00:00:00 GMT"),
    "this operation was removed on Thu, 05 Dec 2030 00:00:00 GMT; use GET /v1/pets, optionally with status",
  ],
  payload_too_large: [MESSAGES.payload_too_large.body(65_536), "body: must be at most 65536 bytes"],
  unsupported_media_type: [
    MESSAGES.unsupported_media_type.contentType,
    "Content-Type: must be application/json",
  ],
  idempotency_key_reused: [
    MESSAGES.idempotency_key_reused.otherPet(24),
    "Idempotency-Key: was used for a different pet in the last 24 hours; use a new key",
  ],
  rate_limit_exceeded: [
    MESSAGES.rate_limit_exceeded.key(60, "minute", RETRY),
    "limit of 60 requests per minute exceeded; retry in 40 s, at 2026-11-20T12:35:00Z",
  ],
  key_banned: [
    MESSAGES.key_banned.ban(RETRY.atMs, RETRY),
    "the API key is temporarily banned until 2026-11-20T12:35:00Z for ignoring 429 responses; retry in 40 s, at 2026-11-20T12:35:00Z",
  ],
  internal_error: [
    MESSAGES.internal_error.fault("request-4711"),
    "internal error; if it persists, report request ID request-4711",
  ],
  service_unavailable: [
    MESSAGES.service_unavailable.database({ retryAfterSeconds: 5, requestId: "request-4711" }),
    "the database is unavailable; retry in 5 s; if it persists, report request ID request-4711",
  ],
};

it.each(Object.entries(LITERALS))("the message of %s changes only on purpose", (_, [message, literal]) => {
  expect(message).toBe(literal);
});

it("a 4xx logs no failure", async () => {
  const client = await newClient();
  await client.get("/v1/pets?limit=0");
  await client.get("/v1/nowhere");
  for (const line of takeLogLines()) expect(line).not.toHaveProperty("failures");
});
