// Invalid bodies, media types, queries, paths and credentials. Each gets the expected status and Error body, and stores nothing.

import { env } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import { FIELD_PROBLEMS, MESSAGES } from "../../src/http/messages.ts";
import { newSecret } from "../../src/keys/secret.ts";
import { PET_STATUSES } from "../../src/pets/schema.ts";
import { app } from "../support/worker/app.ts";
import {
  countPets,
  type ErrorBody,
  expectDocumented,
  fetchWithoutKey,
  newClient,
  newKey,
} from "../support/worker/client.ts";

/** Checks status, body and media type of the response, and that no pet was stored. */
async function expectRefusal(
  request: () => Promise<Response>,
  status: number,
  code: string,
  message: string,
) {
  const before = await countPets();
  const response = await request();
  expect(await response.json<ErrorBody>()).toEqual({ code, message, status });
  expect(response.status).toBe(status);
  expect(response.headers.get("Content-Type")).toBe("application/json");
  expect(await countPets()).toBe(before);
}

const { field, json } = MESSAGES.invalid_request;
const NAME = field("name", FIELD_PROBLEMS.required);
const NAME_TYPE = field("name", FIELD_PROBLEMS.string);
const NAME_LENGTH = field("name", FIELD_PROBLEMS.length(255));
const CATEGORY = field("categoryId", FIELD_PROBLEMS.required);
const INTEGER = field("categoryId", FIELD_PROBLEMS.int64);
const STATUS = field("status", FIELD_PROBLEMS.oneOf(PET_STATUSES));
const OBJECT = field("body", FIELD_PROBLEMS.object);
const petWith = (value: string) => `{"name":"Rex","categoryId":1,"x":${value}}`;
const NESTED = `${"[".repeat(30_000)}${"]".repeat(30_000)}`;

describe("an invalid body", () => {
  it.each([
    ["{}", `${NAME}; ${CATEGORY}`],
    [`{"name":"Rex"}`, CATEGORY],
    [`{"categoryId":1}`, NAME],
    [`{"name":null,"categoryId":1}`, NAME_TYPE],
    [`{"name":5,"categoryId":1}`, NAME_TYPE],
    [`{"name":["Rex"],"categoryId":1}`, NAME_TYPE],
    [`{"name":"Rex","categoryId":null}`, INTEGER],
    [`{"name":"Rex","categoryId":"1"}`, INTEGER],
    [`{"name":"Rex","categoryId":1.5}`, INTEGER],
    [`{"name":"Rex","categoryId":true}`, INTEGER],
    [`{"name":"Rex","categoryId":[1]}`, INTEGER],
    [`{"name":"Rex","categoryId":{}}`, INTEGER],
    [`{"name":"Rex","categoryId":9223372036854775808}`, INTEGER],
    [`{"name":"Rex","categoryId":1e400}`, INTEGER],
    [`{"name":"Rex","categoryId":1,"status":null}`, STATUS],
    [`{"name":"Rex","categoryId":1,"status":""}`, STATUS],
    [`{"name":"Rex","categoryId":1,"status":"Sold"}`, STATUS],
    [`{"name":"Rex","categoryId":1,"status":["sold"]}`, STATUS],
    [`{"__proto__":{"name":"Rex","categoryId":1}}`, `${NAME}; ${CATEGORY}`],
    [`{"name":"","categoryId":"x","status":"x"}`, `${NAME_LENGTH}; ${INTEGER}; ${STATUS}`],
    ["[]", OBJECT],
    ["null", OBJECT],
    ["1", OBJECT],
    [`"Rex"`, OBJECT],
    ["", json.syntax],
    ["{", json.syntax],
    [`{"name":"Rex","categoryId":1,}`, json.syntax],
    [`{"name":"Rex","categoryId":01}`, json.syntax],
    [`{"name":"Rex","categoryId":NaN}`, json.syntax],
    [`{"name":"Rex","categoryId":1} {}`, json.syntax],
    [`{'name':'Rex','categoryId':1}`, json.syntax],
    [NESTED, json.levels],
    [`{"name":"Rex","categoryId":1,"x":${NESTED}}`, json.levels],
    [petWith("[".repeat(100) + "]".repeat(100)), json.levels],
    [petWith(`[${Array(997).fill("{}").join()}]`), json.values],
    [petWith(`[1${",1".repeat(32_000)}]`), json.values],
  ])("gets 400: $0", async (body, message) => {
    const client = await newClient();
    await expectRefusal(() => client.post(body), 400, "invalid_request", message);
  });

  it("gets 400 if it is missing", async () => {
    const client = await newClient();
    const headers = { "Content-Type": "application/json" };
    const post = () => client.call("/v1/pets", { method: "POST", headers });
    await expectRefusal(post, 400, "invalid_request", json.syntax);
  });
});

describe("the media type of a body", () => {
  const good = `{"name":"Rex","categoryId":1}`;

  it.each([
    "text/plain",
    "text/json",
    "application/x-www-form-urlencoded",
    "application/jsonp",
    "application/json-seq",
    "application/xml+jsonx",
    "application/+json",
    "json",
    "",
    "text/html, application/json",
    "application/x y+json",
  ])("gets 415 for %j", async (type) => {
    const client = await newClient();
    const message = MESSAGES.unsupported_media_type.contentType;
    await expectRefusal(
      () => client.post(good, { "Content-Type": type }),
      415,
      "unsupported_media_type",
      message,
    );
  });

  it("gets 415 if it is missing", async () => {
    const client = await newClient();
    const message = MESSAGES.unsupported_media_type.contentType;
    const bytes = new TextEncoder().encode(good);
    await expectRefusal(() => client.post(bytes, {}), 415, "unsupported_media_type", message);
  });

  it("gets 415 with a Content-Encoding", async () => {
    const client = await newClient();
    const compressed = new Blob([good]).stream().pipeThrough(new CompressionStream("gzip"));
    const body = await new Response(compressed).arrayBuffer();
    const headers = { "Content-Type": "application/json", "Content-Encoding": "gzip" };
    const post = () => client.post(body, headers);
    await expectRefusal(post, 415, "unsupported_media_type", MESSAGES.unsupported_media_type.contentEncoding);
    // RFC 9110, section 15.5.16.
    expect((await post()).headers.get("Accept-Encoding")).toBe("identity");
  });

  it.each([
    "application/json",
    "application/json; charset=utf-8",
    "application/json;charset=UTF-8",
    "Application/JSON",
    "application/vnd.pets.v1+json",
    "application/merge-patch+json; profile=x",
    "application/a+b+json",
  ])("can be %j", async (type) => {
    const client = await newClient();
    expect((await client.post(good, { "Content-Type": type })).status).toBe(201);
  });
});

describe("a body of more than 64 KiB", () => {
  const message = MESSAGES.payload_too_large.body(65_536);
  const bodyOf = (bytes: number) => `{"name":"Rex","categoryId":1}`.padEnd(bytes, " ");

  it("gets 413 if it has a length", async () => {
    const client = await newClient();
    const headers = { "Content-Type": "application/json", "Content-Length": "65537" };
    await expectRefusal(() => client.post(bodyOf(65_537), headers), 413, "payload_too_large", message);
  });

  it("gets 413 if it is a stream without a length", async () => {
    const client = await newClient();
    const stream = new Blob([bodyOf(65_537)]).stream();
    await expectRefusal(() => client.post(stream), 413, "payload_too_large", message);
  });

  it("gets 413 at once if its Content-Length exceeds the limit", async () => {
    const client = await newClient();
    const endless = new ReadableStream({ type: "bytes" });
    const headers = { "Content-Type": "application/json", "Content-Length": "65537" };
    await expectRefusal(() => client.post(endless, headers), 413, "payload_too_large", message);
  });

  it("is drained if it has no Content-Length", async () => {
    const client = await newClient();
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
    const { secret, get } = await newClient();
    let isOver = false;
    const endless = new ReadableStream({
      type: "bytes",
      pull(controller) {
        controller.enqueue(new Uint8Array(10_000));
        if (isOver) controller.close();
      },
    });
    const headers = { Authorization: `Bearer ${secret}`, "Content-Type": "application/json" };
    // Passed to the app directly: a stream that is always ready is the worst case.
    const refused = app.request("/v1/pets", { method: "POST", headers, body: endless }, env);
    expect((await get("/v1/pets")).status).toBe(200);
    isOver = true;
    expect((await refused).status).toBe(413);
  });

  it("is accepted at exactly 64 KiB, with and without a length", async () => {
    const client = await newClient();
    expect((await client.post(bodyOf(65_536))).status).toBe(201);
    expect((await client.post(new Blob([bodyOf(65_536)]).stream())).status).toBe(201);
  });
});

it("an interrupted body gets 400 and logs no error", async () => {
  const log = vi.spyOn(console, "error");
  const client = await newClient();
  const broken = new ReadableStream({
    type: "bytes",
    start: (controller) => controller.enqueue(new TextEncoder().encode(`{"name":"Rex",`)),
    pull: (controller) => controller.error(new Error("connection lost")),
  });
  const headers = { Authorization: `Bearer ${client.secret}`, "Content-Type": "application/json" };
  // Passed to the app directly: the way to the Worker would turn the broken stream into a short one.
  const request = async () => {
    const response = await app.request("/v1/pets", { method: "POST", headers, body: broken }, env);
    await expectDocumented("POST", "/v1/pets", response);
    return response;
  };
  await expectRefusal(request, 400, "invalid_request", MESSAGES.invalid_request.bodyIncomplete);
  expect(log).not.toHaveBeenCalled();
});

it("a body is read into one buffer, however short its chunks are", async () => {
  const client = await newClient();
  const text = new TextEncoder().encode(`{"name":"Rex","categoryId":1}`);
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
  const headers = { Authorization: `Bearer ${client.secret}`, "Content-Type": "application/json" };
  const response = await app.request("/v1/pets", { method: "POST", headers, body: tinyChunks }, env);
  expect(response.status).toBe(201);
  expect(sent).toBe(text.length);
  expect([...buffers]).toEqual([65_537]);
});

it.each([
  ["nested 100 levels deep", "[".repeat(99) + "]".repeat(99)],
  ["with 1000 values", `[${Array(996).fill("{}").join()}]`],
  ["with 1000 values, each with a name", `{${Array(996).fill('"y":0').join()}}`],
  ["with brackets in a text", JSON.stringify("[{".repeat(1_000))],
  ["with brackets after a quote in a text", JSON.stringify(`"${"[{".repeat(1_000)}`)],
  ["with brackets in a text that ends in a backslash", JSON.stringify(`${"[{".repeat(1_000)}\\`)],
])("accepts a body %s", async (_, value) => {
  const client = await newClient();
  expect((await client.post(petWith(value))).status).toBe(201);
});

it("a stalled body gets 400 after 10 seconds and stores nothing", async () => {
  const client = await newClient();
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
  const headers = { Authorization: `Bearer ${client.secret}`, "Content-Type": "application/json" };
  vi.useFakeTimers({ toFake: ["Date", "setTimeout", "clearTimeout"], now: Date.now() });
  let isAnswered = false;
  const request = async () => {
    // Passed to the app directly, so that the app reads this stream.
    const answer = Promise.resolve(app.request("/v1/pets", { method: "POST", headers, body: slow }, env));
    void answer.finally(() => (isAnswered = true));
    await reached;
    vi.advanceTimersByTime(9_999);
    await scheduler.wait(1);
    expect(isAnswered).toBe(false);
    vi.advanceTimersByTime(1);
    const response = await answer;
    await expectDocumented("POST", "/v1/pets", response);
    finish();
    return response;
  };
  await expectRefusal(request, 400, "invalid_request", MESSAGES.invalid_request.bodyTooSlow(10));
});

describe("the query of a list", () => {
  const LIMIT = field("limit", FIELD_PROBLEMS.pageSize(100));
  const CURSOR = field("cursor", FIELD_PROBLEMS.cursor);
  it.each([
    ["limit=", LIMIT],
    ["limit", LIMIT],
    ["limit=0", LIMIT],
    ["limit=-1", LIMIT],
    ["limit=101", LIMIT],
    ["limit=99999999999999999999", LIMIT],
    [`limit=${"9".repeat(309)}`, LIMIT],
    ["limit=1e1", LIMIT],
    ["limit=0x10", LIMIT],
    ["limit=%2010", LIMIT],
    ["limit=10%20", LIMIT],
    ["limit=+10", LIMIT],
    ["limit=10.0", LIMIT],
    ["limit=%EF%BC%91", LIMIT],
    ["limit=10%0A", LIMIT],
    ["limit=%ZZ", LIMIT],
    ["limit=10&limit=10", field("limit", FIELD_PROBLEMS.repeated)],
    ["status=", STATUS],
    ["status=Available", STATUS],
    ["status=available,sold", STATUS],
    ["status=sold%00", STATUS],
    ["status=sold&status=sold", field("status", FIELD_PROBLEMS.repeated)],
    ["cursor=", CURSOR],
    ["cursor=x", CURSOR],
    ["cursor=%00", CURSOR],
    ["cursor=AQAAAAAAAAAB", CURSOR],
    ["cursor=a&cursor=b", field("cursor", FIELD_PROBLEMS.repeated)],
    ["limit=0&status=x", `${STATUS}; ${LIMIT}`],
  ])("gets 400 for %s", async (query, message) => {
    const client = await newClient();
    await expectRefusal(() => client.get(`/v1/pets?${query}`), 400, "invalid_request", message);
  });

  it.each([
    "",
    "foo=1&bar",
    "Limit=0",
    "limit[]=0",
    "__proto__=1",
    "constructor=1",
    "toString",
    "=",
    "&&",
    "%",
  ])("ignores unknown parameters: %j", async (query) => {
    const client = await newClient();
    expect((await client.get(`/v1/pets?${query}`)).status).toBe(200);
  });

  it.each(["limit=1", "limit=100", "limit=%31", "limit=007"])("accepts %s", async (query) => {
    const client = await newClient();
    expect((await client.get(`/v1/pets?${query}`)).status).toBe(200);
  });
});

describe("an unknown path or id", () => {
  it.each([
    "/v1",
    "/v1/",
    "/v1/pets/",
    "/v1/pets/1/",
    "/v1/pets/1/photos",
    "/v1/Pets",
    "/v1/store",
    "/v1/store/orders",
    "/v1/orders",
    "/v1//pets",
    "/v1/%70ets%2F",
  ])("gets 404: %s", async (path) => {
    const client = await newClient();
    await expectRefusal(() => client.get(path), 404, "not_found", MESSAGES.not_found.path);
  });

  it.each(["/", "/pets", "/v1pets", "/v2/pets", "/V1/pets", "//v1/pets"])(
    "gets 404 outside the API, with or without a key: %s",
    async (path) => {
      const client = await newClient();
      const message = MESSAGES.not_found.pathOutsideApi;
      await expectRefusal(() => client.get(path), 404, "not_found", message);
      await expectRefusal(() => fetchWithoutKey(path), 404, "not_found", message);
    },
  );

  it.each([
    "0",
    "999999999",
    "-1",
    "abc",
    "1.0",
    "1e0",
    "01",
    "+1",
    "0x1",
    "%00",
    "%ZZ",
    "1%20",
    "9223372036854775808",
    "null",
  ])("gets 404: /v1/pets/%s", async (petId) => {
    const client = await newClient();
    await expectRefusal(() => client.get(`/v1/pets/${petId}`), 404, "not_found", MESSAGES.not_found.pet);
  });
});

describe("an invalid credential", () => {
  const MISSING = MESSAGES.unauthorized.missing;
  const INVALID = MESSAGES.unauthorized.unknown;

  it.each([
    ["no header", {}],
    ["an empty header", { Authorization: "" }],
    ["another scheme", { Authorization: "Basic dXNlcjpwYXNz" }],
    ["a scheme without a key", { Authorization: "Bearer" }],
    ["another header", { "X-API-Key": newSecret() }],
  ])("gets 401 as missing: %s", async (_, headers) => {
    const call = () => fetchWithoutKey("/v1/pets", { headers });
    await expectRefusal(call, 401, "unauthorized", MISSING);
    expect((await call()).headers.get("WWW-Authenticate")).toBe('Bearer realm="petstore"');
  });

  it.each([
    ["an unknown key", () => newSecret()],
    ["a malformed key", () => "hunter2"],
    ["a wrong checksum", () => `${newSecret().slice(0, -1)}!`],
    ["a wrong prefix", () => newSecret().replace("pet_", "cat_")],
    ["a truncated key", () => newSecret().slice(0, -1)],
    ["a key with a suffix", () => `${newSecret()} `.padEnd(60, "x")],
    ["two keys", () => `${newSecret()}, Bearer ${newSecret()}`],
    ["a very long key", () => "x".repeat(8_000)],
  ])("gets 401 as not valid: %s", async (_, secret) => {
    const call = () => fetchWithoutKey("/v1/pets", { headers: { Authorization: `Bearer ${secret()}` } });
    await expectRefusal(call, 401, "unauthorized", INVALID);
    expect((await call()).headers.get("WWW-Authenticate")).toBe(
      'Bearer realm="petstore", error="invalid_token"',
    );
  });

  it("gets 401 if the key is in the query", async () => {
    const { secret } = await newKey();
    for (const parameter of ["api_key", "key", "access_token"]) {
      await expectRefusal(
        () => fetchWithoutKey(`/v1/pets?${parameter}=${secret}`),
        401,
        "unauthorized",
        MISSING,
      );
    }
  });

  it.each(["bearer @", "BEARER @", "Bearer   @", "Bearer @ ", " Bearer @\t"])(
    "is accepted in the form %j",
    async (form) => {
      const { secret } = await newKey();
      const headers = { Authorization: form.replace("@", secret) };
      expect((await fetchWithoutKey("/v1/pets", { headers })).status).toBe(200);
    },
  );

  it("gets 401 also with an unknown path, a wrong method or an invalid body", async () => {
    await expectRefusal(() => fetchWithoutKey("/v1/nowhere"), 401, "unauthorized", MISSING);
    await expectRefusal(
      () => fetchWithoutKey("/v1/pets", { method: "DELETE" }),
      401,
      "unauthorized",
      MISSING,
    );
    const bad = { method: "POST", body: "{", headers: { "Content-Type": "text/plain" } };
    await expectRefusal(() => fetchWithoutKey("/v1/pets", bad), 401, "unauthorized", MISSING);
  });
});
