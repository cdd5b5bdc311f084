// What a read-only key may do. test/unit/readers.test.ts has keys of the release before.

import { expect, it } from "vitest";
import { HEADER } from "../../src/http/header-names.ts";
import { MESSAGES } from "../../src/http/messages.ts";
import { interceptCalls } from "../support/worker/bindings.ts";
import { countPets, newClient, POST, REX } from "../support/worker/client.ts";
import { takeLogLines } from "../support/worker/log-lines.ts";

const FORBIDDEN = { code: "forbidden", message: MESSAGES.forbidden.readOnly, status: 403 };

const reader = () => newClient({ access: "read" });

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
  const { call } = await reader();
  for (const method of ["GET", "HEAD"])
    expect([method, (await call("/v1/pets", { method })).status]).toEqual([method, 200]);
});

it("a key with an access that a later release may have may only read", async () => {
  const { id, post } = await newClient();
  interceptCalls(id, async (run) => {
    const { key, ...answer } = (await run()) as { key: object };
    return { ...answer, key: { ...key, access: "later" } };
  });
  expect((await post(REX)).status).toBe(403);
});
