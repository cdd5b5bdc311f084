// Invalid bodies, media types, queries and paths over HTTP, each kind once: the response has the expected status and Error body, and
// nothing is stored. test/unit/pet-input.test.ts has all values, openapi.test.ts the bounds, keys.test.ts the credentials.

import { env } from "cloudflare:workers";
import { beforeAll, describe, expect, it, vi } from "vitest";
import { app } from "../../src/app.ts";
import { FIELD_PROBLEMS, MESSAGES } from "../../src/http/messages.ts";
import { PET_STATUSES } from "../../src/pets/schema.ts";
import {
  type Client,
  countPets,
  type ErrorBody,
  expectDocumented,
  fetchWithoutKey,
  newUnlimitedClient,
} from "../support/worker/client.ts";

let client: Client;

beforeAll(async () => {
  client = await newUnlimitedClient();
});

/** Checks status, body and media type of the response, and that no pet was stored. */
async function expectRefusal(
  request: () => Promise<Response>,
  status: number,
  code: string,
  message: string,
): Promise<Response> {
  const before = await countPets();
  const response = await request();
  expect(await response.json<ErrorBody>()).toEqual({ code, message, status });
  expect(response.status).toBe(status);
  expect(response.headers.get("Content-Type")).toBe("application/json");
  expect(await countPets()).toBe(before);
  return response;
}

const { field, json } = MESSAGES.invalid_request;
const NAME = field("name", FIELD_PROBLEMS.length(255));
const CATEGORY = field("categoryId", FIELD_PROBLEMS.required);
const INTEGER = field("categoryId", FIELD_PROBLEMS.int64);
const STATUS = field("status", FIELD_PROBLEMS.oneOf(PET_STATUSES));
const REX = `{"name":"Rex","categoryId":1}`;
const petWith = (value: string) => `{"name":"Rex","categoryId":1,"x":${value}}`;

describe("an invalid body", () => {
  it.each([
    [`{"name":"Rex"}`, CATEGORY],
    [`{"name":"","categoryId":"x","status":"x"}`, `${NAME}; ${INTEGER}; ${STATUS}`],
    ["[]", field("body", FIELD_PROBLEMS.object)],
    ["{", json.syntax],
    ["", json.syntax],
    [undefined, json.syntax],
    [new Uint8Array([0x22, 0xff, 0x22]), json.encoding],
    [petWith("[".repeat(100) + "]".repeat(100)), json.levels],
    [petWith(`[1${",1".repeat(32_000)}]`), json.values],
  ])("gets 400: $0", async (body, message) => {
    const headers = { "Content-Type": "application/json" };
    const post = () =>
      client.call("/v1/pets", { method: "POST", headers, ...(body !== undefined && { body }) });
    await expectRefusal(post, 400, "invalid_request", message);
  });

  it("is not one with 100 levels, 1000 values or brackets in a text", async () => {
    for (const value of [
      "[".repeat(99) + "]".repeat(99),
      `[${Array(996).fill("{}").join()}]`,
      JSON.stringify("[{".repeat(1_000)),
    ]) {
      expect((await client.post(petWith(value))).status).toBe(201);
    }
  });
});

describe("the media type of a body", () => {
  const { contentType, contentEncoding } = MESSAGES.unsupported_media_type;

  it.each(["text/plain", "application/jsonp", ""])("gets 415 for %j", async (type) => {
    const post = () => client.post(REX, { "Content-Type": type });
    await expectRefusal(post, 415, "unsupported_media_type", contentType);
  });

  it("gets 415 if it is missing", async () => {
    const bytes = new TextEncoder().encode(REX);
    await expectRefusal(() => client.post(bytes, {}), 415, "unsupported_media_type", contentType);
  });

  it("gets 415 with a Content-Encoding", async () => {
    const compressed = new Blob([REX]).stream().pipeThrough(new CompressionStream("gzip"));
    const body = await new Response(compressed).arrayBuffer();
    const headers = { "Content-Type": "application/json", "Content-Encoding": "gzip" };
    const post = () => client.post(body, headers);
    const response = await expectRefusal(post, 415, "unsupported_media_type", contentEncoding);
    // RFC 9110, section 15.5.16.
    expect(response.headers.get("Accept-Encoding")).toBe("identity");
  });

  it.each(["application/json; charset=utf-8", "application/vnd.pets.v1+json"])("can be %j", async (type) => {
    expect((await client.post(REX, { "Content-Type": type })).status).toBe(201);
  });
});

/** Posts a body directly to the app: on the way to the Worker the stream would become another one. */
async function postToApp(body: ReadableStream): Promise<Response> {
  const headers = { Authorization: `Bearer ${client.secret}`, "Content-Type": "application/json" };
  const response = await app.request("/v1/pets", { method: "POST", headers, body }, env);
  await expectDocumented("POST", "/v1/pets", response);
  return response;
}

describe("a body of more than 64 KiB", () => {
  const message = MESSAGES.payload_too_large.body(65_536);
  const bodyOf = (bytes: number) => REX.padEnd(bytes, " ");

  it("gets 413 if it is a stream without a length", async () => {
    const stream = new Blob([bodyOf(65_537)]).stream();
    await expectRefusal(() => client.post(stream), 413, "payload_too_large", message);
  });

  it("gets 413 at once if its Content-Length exceeds the limit", async () => {
    const endless = new ReadableStream({ type: "bytes" });
    const headers = { "Content-Type": "application/json", "Content-Length": "65537" };
    await expectRefusal(() => client.post(endless, headers), 413, "payload_too_large", message);
  });

  it("is drained if it has no Content-Length", async () => {
    let left = 300;
    const long = new ReadableStream({
      type: "bytes",
      pull(controller) {
        if (left > 0) controller.enqueue(new Uint8Array(10_000));
        else controller.close();
        left -= 1;
      },
    });
    await expectRefusal(() => client.post(long), 413, "payload_too_large", message);
    // Cancelling the read would make the local server fail another client's request.
    expect(left).toBeLessThan(0);
  });

  it("does not delay other requests while it is drained", async () => {
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
    isOver = true;
    expect((await refused).status).toBe(413);
  });

  it("is accepted at exactly 64 KiB, with and without a length", async () => {
    expect((await client.post(bodyOf(65_536))).status).toBe(201);
    expect((await client.post(new Blob([bodyOf(65_536)]).stream())).status).toBe(201);
  });
});

it("an interrupted body gets 400 and logs no error", async () => {
  const log = vi.spyOn(console, "error");
  const broken = new ReadableStream({
    type: "bytes",
    start: (controller) => controller.enqueue(new TextEncoder().encode(`{"name":"Rex",`)),
    pull: (controller) => controller.error(new Error("connection lost")),
  });
  const message = MESSAGES.invalid_request.bodyIncomplete;
  await expectRefusal(() => postToApp(broken), 400, "invalid_request", message);
  expect(log).not.toHaveBeenCalled();
});

it("a body is read into one buffer, however short its chunks are", async () => {
  const text = new TextEncoder().encode(REX);
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
  expect(sent).toBe(text.length);
  expect([...buffers]).toEqual([65_537]);
});

it("a stalled body gets 400 after 10 seconds and stores nothing", async () => {
  const { promise: reached, resolve: reach } = Promise.withResolvers<void>();
  let finish = () => {};
  const slow = new ReadableStream({
    type: "bytes",
    start(controller) {
      controller.enqueue(new TextEncoder().encode(`{"name":"Rex",`));
      finish = () => {
        controller.enqueue(new TextEncoder().encode(`"categoryId":1}`));
        controller.close();
      };
    },
    // The first pull shows that the app is reading.
    pull: () => reach(),
  });
  vi.useFakeTimers({ toFake: ["Date", "setTimeout", "clearTimeout"], now: Date.now() });
  let isAnswered = false;
  const request = async () => {
    const answer = postToApp(slow).finally(() => (isAnswered = true));
    await reached;
    vi.advanceTimersByTime(9_999);
    await scheduler.wait(1);
    expect(isAnswered).toBe(false);
    vi.advanceTimersByTime(1);
    const response = await answer;
    finish();
    return response;
  };
  await expectRefusal(request, 400, "invalid_request", MESSAGES.invalid_request.bodyTooSlow(10));
});

describe("the query of a list", () => {
  const LIMIT = field("limit", FIELD_PROBLEMS.pageSize(100));
  const CURSOR = field("cursor", FIELD_PROBLEMS.cursor);

  it.each([
    ["limit", LIMIT],
    ["limit=%2010", LIMIT],
    ["limit=+10", LIMIT],
    ["limit=%ZZ", LIMIT],
    ["limit=10&limit=10", field("limit", FIELD_PROBLEMS.repeated)],
    ["status=sold%00", STATUS],
    ["status=sold&status=sold", field("status", FIELD_PROBLEMS.repeated)],
    ["cursor=", CURSOR],
    ["cursor=a&cursor=b", field("cursor", FIELD_PROBLEMS.repeated)],
    ["limit=0&status=x", `${STATUS}; ${LIMIT}`],
  ])("gets 400 for %s", async (query, message) => {
    await expectRefusal(() => client.get(`/v1/pets?${query}`), 400, "invalid_request", message);
  });

  it.each(["", "foo=1&bar", "Limit=0", "limit[]=0", "=", "&&", "%", "limit=%31"])(
    "can be %j",
    async (query) => {
      expect((await client.get(`/v1/pets?${query}`)).status).toBe(200);
    },
  );
});

describe("an unknown path or id", () => {
  const { path: inApi, pathOutsideApi, pet } = MESSAGES.not_found;

  it.each([
    ...["/v1", "/v1/", "/v1/pets/", "/v1/pets/1/photos", "/v1/Pets", "/v1//pets", "/v1/%70ets%2F"].map(
      (path) => [path, inApi] as const,
    ),
    ...["0", "999999999", "abc", "01", "%00", "%ZZ", "1%20", "9223372036854775808"].map(
      (id) => [`/v1/pets/${id}`, pet] as const,
    ),
    ...["/", "/pets", "/v1pets", "/V1/pets", "//v1/pets"].map((path) => [path, pathOutsideApi] as const),
  ])("gets 404: %s", async (path, message) => {
    await expectRefusal(() => client.get(path), 404, "not_found", message);
  });

  it("gets 404 outside the API also without a key", async () => {
    await expectRefusal(() => fetchWithoutKey("/v2/pets"), 404, "not_found", pathOutsideApi);
  });
});
