// What a read-only key may do, and when a change of access takes effect. test/unit/readers.test.ts has keys of the release before.

import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { HEADER } from "../../src/http/header-names.ts";
import { MESSAGES } from "../../src/http/messages.ts";
import { changeAccess, suspendKey } from "../../src/operators/admin.ts";
import { interceptCalls } from "../support/worker/bindings.ts";
import { type Client, countPets, newClient, operator, POST, REX } from "../support/worker/client.ts";
import { takeLogLines } from "../support/worker/log-lines.ts";
import { pass } from "../support/worker/time.ts";

const FORBIDDEN = { code: "forbidden", message: MESSAGES.forbidden.readOnly, status: 403 };

const reader = () => newClient({ access: "read" });
const postStatus = async ({ post }: Client) => (await post(REX)).status;

it.each([
  ["POST", "/v1/pets", REX],
  ["POST", "/v1/pets", "{"],
  ["POST", "/v1/nowhere", REX],
  ["DELETE", "/v1/pets", undefined],
  ["PATCH", "/v1/nowhere", undefined],
  ["OPTIONS", "/v1/pets", undefined],
])("a read-only key gets a 403 for %s %s %s, which counts and adds no pet", async (method, path, body) => {
  const { id, call } = await reader();
  const before = await countPets();
  for (const remaining of ["999", "998"]) {
    const response = await call(path, { method, headers: POST.headers, ...(body && { body }) });
    expect(response.headers.get(HEADER.rateLimitRemaining)).toBe(remaining);
    expect(await response.json()).toEqual(FORBIDDEN);
  }
  expect(await countPets()).toBe(before);
  expect(takeLogLines().at(-1)).toMatchObject({ keyId: id, status: 403, code: "forbidden" });
});

it("a read-only key gets the responses of any key for GET and HEAD", async () => {
  const { id: petId } = await (await newClient()).create();
  const { call } = await reader();
  for (const [path, status] of [
    ["/v1/pets", 200],
    [`/v1/pets/${petId}`, 200],
    ["/v1/usage", 200],
    ["/v1/pets?limit=x", 400],
    ["/v1/nowhere", 404],
  ] as const)
    for (const method of ["GET", "HEAD"])
      expect([method, path, (await call(path, { method })).status]).toEqual([method, path, status]);
});

it("a read-only key gets a 429 above its limit, and a 401 while it is suspended", async () => {
  const limited = await newClient({ plan: "enterprise", limits: { minute: 1, day: 9 }, access: "read" });
  expect([await postStatus(limited), await postStatus(limited)]).toEqual([403, 429]);
  const suspended = await reader();
  await suspendKey(env.KEYS_DB, suspended.id, "a test", false, operator());
  expect(await postStatus(suspended)).toBe(401);
});

it("a change of access takes effect after 30 s, also in an isolate that asks nobody because it has a lease", async () => {
  const client = await newClient();
  // The third request is admitted from the lease that the second has brought.
  for (let request = 0; request < 3; request += 1) expect(await postStatus(client)).toBe(201);
  await changeAccess(env.KEYS_DB, client.id, "read", operator());
  expect(await postStatus(client)).toBe(201);
  pass(30_000);
  expect([await postStatus(client), await client.status()]).toEqual([403, 404]);
  await changeAccess(env.KEYS_DB, client.id, "write", operator());
  pass(30_000);
  expect(await postStatus(client)).toBe(201);
});

it.each([
  ["as an object of the release before sends it, may write", undefined, 201],
  ["with an access that a later release may have, may only read", "later", 403],
])("a key %s", async (_, access, status) => {
  const client = await newClient({ access: "read" });
  interceptCalls(client.id, async (run) => {
    const { key, ...answer } = (await run()) as { key: object };
    return { ...answer, key: { ...key, access } };
  });
  expect(await postStatus(client)).toBe(status);
});
