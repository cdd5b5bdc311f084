// Refused bodies, queries and paths over HTTP. test/unit/pet-input.test.ts has the values, bounds and media types, keys.test.ts the
// credentials; test/e2e/fuzz.test.ts sends random input, and finds what a refused request has stored.

import { env } from "cloudflare:workers";
import { beforeEach, expect, it } from "vitest";
import { app } from "../../src/app.ts";
import { MAX_BODY_BYTES } from "../../src/http/body.ts";
import { FIELD_PROBLEMS, MESSAGES } from "../../src/http/messages.ts";
import { type Client, countPets, expectDocumented, newClient, POST, REX } from "../support/worker/client.ts";
import { takeLogLines } from "../support/worker/log-lines.ts";
import { fakeTimeouts, hasSettled, pass } from "../support/worker/time.ts";

let client: Client;

beforeEach(async () => {
  client = await newClient();
});

async function expectRefusal(response: Response, message: string, [status, code] = [400, "invalid_request"]) {
  expect(await response.json()).toEqual({ code, message, status });
  expect(response.status).toBe(status);
}

const { field, json, bodyIncomplete, bodyTooSlow } = MESSAGES.invalid_request;
const TOO_LARGE = MESSAGES.payload_too_large.body(MAX_BODY_BYTES);
const bytesOf = (text: string) => new TextEncoder().encode(text);

/** Posts a body directly to the app: on the way to the Worker the stream would become another one. */
async function postToApp(body: ReadableStream): Promise<Response> {
  const headers = { Authorization: `Bearer ${client.secret}`, ...POST.headers };
  const response = await app.request("/v1/pets", { method: "POST", headers, body }, env);
  await expectDocumented("POST", "/v1/pets", response);
  return response;
}

it("a body of exactly the limit is accepted, with and without a length; one that is too large gets 413, unread if it has a length", async () => {
  const text = REX.padEnd(MAX_BODY_BYTES, " ");
  for (const body of [text, new Blob([text]).stream()]) expect((await client.post(body)).status).toBe(201);
  const headers = { ...POST.headers, "Content-Length": `${MAX_BODY_BYTES + 1}` };
  const refused = await client.post(new ReadableStream({ type: "bytes" }), headers);
  await expectRefusal(refused, TOO_LARGE, [413, "payload_too_large"]);
});

it("a body that is too large is drained if it has no Content-Length, and other requests are served while it is drained", async () => {
  let isOver = false;
  // Always ready: the worst case.
  const endless = new ReadableStream({
    type: "bytes",
    pull(controller) {
      controller.enqueue(new Uint8Array(10_000));
      if (isOver) controller.close();
    },
  });
  const refused = postToApp(endless);
  expect((await client.get("/v1/pets")).status).toBe(200);
  // Cancelling the read would make the local server fail another client's request.
  expect(await hasSettled(refused)).toBe(false);
  isOver = true;
  await expectRefusal(await refused, TOO_LARGE, [413, "payload_too_large"]);
});

it("a body that is nested too deeply for exact numbers gets 400", async () => {
  const nested = (levels: number) =>
    `{"name":"Rex","categoryId":1.0,"x":${"[".repeat(levels)}${"]".repeat(levels)}}`;
  expect((await client.post(nested(1_000))).status).toBe(201);
  await expectRefusal(await client.post(nested(8_000)), json.depth);
});

it("a body is read into one buffer, however short its chunks are", async () => {
  const text = bytesOf(REX);
  const buffers = new Set<number>();
  let sent = 0;
  const tinyChunks = new ReadableStream({
    type: "bytes",
    pull(controller) {
      const view = controller.byobRequest?.view;
      if (!view) throw new Error("each chunk has a buffer of its own");
      buffers.add(view.buffer.byteLength);
      new Uint8Array(view.buffer, view.byteOffset)[0] = text[sent] ?? 0;
      sent += 1;
      controller.byobRequest?.respond(1);
      if (sent === text.length) controller.close();
    },
  });
  expect((await postToApp(tinyChunks)).status).toBe(201);
  expect([...buffers]).toEqual([MAX_BODY_BYTES + 1]);
});

/** Begins to send a body. */
async function postHalf() {
  const { readable, writable } = new IdentityTransformStream();
  const writer = writable.getWriter();
  const response = postToApp(readable);
  // This resolves when the app reads.
  await writer.write(bytesOf(`{"name":"Rex",`));
  return { writer, response };
}

it("an interrupted body gets 400 and logs no error", async () => {
  const { writer, response } = await postHalf();
  await writer.abort(new Error("connection lost"));
  await expectRefusal(await response, bodyIncomplete);
  expect(takeLogLines().at(-1)).not.toHaveProperty("failures");
});

it("a stalled body gets 400 after 10 seconds and stores nothing", async () => {
  fakeTimeouts();
  const before = await countPets();
  const { writer, response } = await postHalf();
  pass(9_999);
  expect(await hasSettled(response)).toBe(false);
  pass(1);
  await expectRefusal(await response, bodyTooSlow(10));
  // Too late.
  await writer.write(bytesOf(`"categoryId":1}`));
  await writer.close();
  expect(await countPets()).toBe(before);
});

it("the query of a list gets 400 if it is invalid, also the second time", async () => {
  for (let time = 0; time < 2; time += 1)
    await expectRefusal(
      await client.get("/v1/pets?limit=1&limit=1"),
      field("limit", FIELD_PROBLEMS.repeated),
    );
});

const { path: inApi, pathOutsideApi, pet } = MESSAGES.not_found;

it.each([
  ...["/v1", "/v1/pets/", "/v1/Pets", "/v1//pets", "/v1/%70ets%2F"].map((path) => [path, inApi] as const),
  ...["0", "abc", "%00", "%ZZ", "9223372036854775808", "1%20OR%201=1"].map(
    (id) => [`/v1/pets/${id}`, pet] as const,
  ),
  ...["/", "/v1pets", "/V1/pets", "//v1/pets"].map((path) => [path, pathOutsideApi] as const),
])("an unknown path or id gets 404: %s", async (path, message) => {
  await expectRefusal(await client.get(path), message, [404, "not_found"]);
});
