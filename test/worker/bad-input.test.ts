// Refused bodies, queries and paths over HTTP: the response has the expected status and Error body, and nothing is stored.
// test/unit/pet-input.test.ts has the values, bounds and media types, keys.test.ts the credentials.

import { env } from "cloudflare:workers";
import { beforeEach, expect, it, vi } from "vitest";
import { app } from "../../src/app.ts";
import { MAX_BODY_BYTES } from "../../src/http/body.ts";
import { FIELD_PROBLEMS, MESSAGES } from "../../src/http/messages.ts";
import { PET_STATUSES } from "../../src/pets/schema.ts";
import { type Client, countPets, expectDocumented, newClient } from "../support/worker/client.ts";
import { takeLogLines } from "../support/worker/log-lines.ts";
import { hasSettled } from "../support/worker/time.ts";

let client: Client;

beforeEach(async () => {
  client = await newClient();
});

/** Checks status and body of the response, and that no pet was stored. */
async function expectRefusal(
  request: () => Promise<Response>,
  message: string,
  [status, code] = [400, "invalid_request"],
): Promise<void> {
  const before = await countPets();
  const response = await request();
  expect(await response.json()).toEqual({ code, message, status });
  expect(response.status).toBe(status);
  expect(await countPets()).toBe(before);
}

const { field, json, bodyIncomplete, bodyTooSlow } = MESSAGES.invalid_request;
const REX = `{"name":"Rex","categoryId":1}`;
const bytesOf = (text: string) => new TextEncoder().encode(text);

/** Posts a body directly to the app: on the way to the Worker the stream would become another one. */
async function postToApp(body: ReadableStream): Promise<Response> {
  const headers = { Authorization: `Bearer ${client.secret}`, "Content-Type": "application/json" };
  const response = await app.request("/v1/pets", { method: "POST", headers, body }, env);
  await expectDocumented("POST", "/v1/pets", response);
  return response;
}

const message = MESSAGES.payload_too_large.body(MAX_BODY_BYTES);
const bodyOf = (bytes: number) => REX.padEnd(bytes, " ");

it("a body that is too large gets 413 if it is a stream without a length", async () => {
  const post = () => client.post(new Blob([bodyOf(MAX_BODY_BYTES + 1)]).stream());
  await expectRefusal(post, message, [413, "payload_too_large"]);
});

it("a body that is too large gets 413 at once if its Content-Length exceeds the limit", async () => {
  const endless = new ReadableStream({ type: "bytes" });
  const headers = { "Content-Type": "application/json", "Content-Length": `${MAX_BODY_BYTES + 1}` };
  await expectRefusal(() => client.post(endless, headers), message, [413, "payload_too_large"]);
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
  expect((await refused).status).toBe(413);
});

it("a body of exactly the limit is accepted, with and without a length", async () => {
  for (const body of [bodyOf(MAX_BODY_BYTES), new Blob([bodyOf(MAX_BODY_BYTES)]).stream()])
    expect((await client.post(body)).status).toBe(201);
});

it("a body that is nested too deeply for exact numbers gets 400", async () => {
  const nested = (levels: number) =>
    `{"name":"Rex","categoryId":1.0,"x":${"[".repeat(levels)}${"]".repeat(levels)}}`;
  expect((await client.post(nested(1_000))).status).toBe(201);
  await expectRefusal(() => client.post(nested(8_000)), json.depth);
});

it("an interrupted body gets 400 and logs no error", async () => {
  const { readable, writable } = new IdentityTransformStream();
  const writer = writable.getWriter();
  const post = async () => {
    const response = postToApp(readable);
    await writer.write(bytesOf(`{"name":"Rex",`));
    await writer.abort(new Error("connection lost"));
    return response;
  };
  await expectRefusal(post, bodyIncomplete);
  expect(takeLogLines().at(-1)).not.toHaveProperty("failures");
});

it("a body is read into one buffer, however short its chunks are", async () => {
  const text = bytesOf(REX);
  const buffers = new Set<number>();
  let sent = 0;
  const tinyChunks = new ReadableStream({
    type: "bytes",
    pull(controller) {
      const view = controller.byobRequest?.view;
      if (view === null || view === undefined) throw new Error("each chunk has a buffer of its own");
      buffers.add(view.buffer.byteLength);
      new Uint8Array(view.buffer, view.byteOffset)[0] = text[sent] ?? 0;
      sent += 1;
      controller.byobRequest?.respond(1);
      if (sent === text.length) controller.close();
    },
  });
  expect((await postToApp(tinyChunks)).status).toBe(201);
  expect([sent, ...buffers]).toEqual([text.length, MAX_BODY_BYTES + 1]);
});

it("a stalled body gets 400 after 10 seconds and stores nothing", async () => {
  const { readable, writable } = new IdentityTransformStream();
  const writer = writable.getWriter();
  vi.useFakeTimers({ toFake: ["Date", "setTimeout", "clearTimeout"], now: Date.now() });
  const post = async () => {
    const response = postToApp(readable);
    // This resolves when the app reads.
    await writer.write(bytesOf(`{"name":"Rex",`));
    vi.advanceTimersByTime(9_999);
    expect(await hasSettled(response)).toBe(false);
    vi.advanceTimersByTime(1);
    await response;
    // Too late: no pet must be stored.
    await writer.write(bytesOf(`"categoryId":1}`));
    await writer.close();
    return response;
  };
  await expectRefusal(post, bodyTooSlow(10));
});

const LIMIT = field("limit", FIELD_PROBLEMS.pageSize(100));
const STATUS = field("status", FIELD_PROBLEMS.oneOf(PET_STATUSES));

it.each([
  ["limit=%ZZ", LIMIT],
  ["limit=10&limit=10", field("limit", FIELD_PROBLEMS.repeated)],
  ["status=sold%00", STATUS],
  ["limit=0&status=x", `${STATUS}; ${LIMIT}`],
])("the query of a list gets 400 for %s, also the second time", async (query, message) => {
  for (let time = 0; time < 2; time += 1) await expectRefusal(() => client.get(`/v1/pets?${query}`), message);
});

const ACCEPTED = ["", "foo=1&bar", "Limit=0", "limit[]=0", "=", "&&", "%", "limit=%31"];
it.each(ACCEPTED)("the query of a list can be %j", async (query) => {
  expect((await client.get(`/v1/pets?${query}`)).status).toBe(200);
});

const { path: inApi, pathOutsideApi, pet } = MESSAGES.not_found;
const IN_API = ["/v1", "/v1/", "/v1/pets/", "/v1/pets/1/photos", "/v1/Pets", "/v1//pets", "/v1/%70ets%2F"];
const IDS = ["0", "999999999", "abc", "01", "%00", "%ZZ", "1%20", "9223372036854775808"];

it.each([
  ...IN_API.map((path) => [path, inApi] as const),
  ...IDS.map((id) => [`/v1/pets/${id}`, pet] as const),
  ...["/", "/v1pets", "/V1/pets", "//v1/pets"].map((path) => [path, pathOutsideApi] as const),
])("an unknown path or id gets 404: %s", async (path, message) => {
  await expectRefusal(() => client.get(path), message, [404, "not_found"]);
});
