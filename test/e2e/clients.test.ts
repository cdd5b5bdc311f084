// Third-party clients over real sockets: they understand the headers, the types and the published document.

import { mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import got, { type RetryFunction } from "got";
import { hc, type InferResponseType } from "hono/client";
import LinkHeader from "http-link-header";
import openapiTS, { astToString } from "openapi-typescript";
import { parseItem, parseList } from "structured-headers";
import { assert, beforeAll, describe, expect, expectTypeOf, it, onTestFinished } from "vitest";
import type { Petstore } from "../../src/app.ts";
import { MESSAGES } from "../../src/http/messages.ts";
import { openApiDocument } from "../../src/openapi/document.ts";
import { encodeCursor } from "../../src/pets/cursor.ts";
import { exchange } from "../support/e2e/openapi-client.ts";
import { runScript } from "../support/e2e/petstore.ts";
import { sharedPetstore } from "../support/e2e/shared-petstore.ts";

/** A pet, parsed with JSON.parse. */
interface Pet {
  id: number;
  name: string;
  categoryId: number;
  status?: "available" | "pending" | "sold" | undefined;
}

const petstore = sharedPetstore();
let origin: string;
let key: string;
let headers: { Authorization: string };

beforeAll(async () => {
  ({ origin } = petstore);
  ({ key } = await petstore.newKey("business"));
  headers = { Authorization: `Bearer ${key}` };
});

/** Hono's client, with the type of the app. */
const client = () => hc<Petstore>(origin, { headers }).v1;

it("got takes its delay from the Retry-After of a 429", async () => {
  const { key } = await petstore.newKey("enterprise", { minute: 1, day: 1 });
  const delays: [delayMs: number, retryAfterMs: number][] = [];
  const calculateDelay: RetryFunction = ({ error, computedValue }) => {
    delays.push([computedValue, Number(error.response?.headers["retry-after"]) * 1_000]);
    // It gives up.
    return 0;
  };
  const options = { headers: { Authorization: `Bearer ${key}` }, retry: { calculateDelay } };
  await got(`${origin}/v1/pets`, options);
  await expect(got(`${origin}/v1/pets`, options)).rejects.toMatchObject({ response: { statusCode: 429 } });
  expect(delays).toHaveLength(1);
  for (const [delayMs, retryAfterMs] of delays) expect(delayMs).toBe(retryAfterMs);
});

// Their exact values: test/worker/contract.test.ts, pages.test.ts and rate-limit-headers.test.ts.
it("http-link-header and structured-headers understand the headers", async () => {
  for (const name of ["Ada", "Bob"]) await client().pets.$post({ json: { name, categoryId: 1 } });
  const list = await fetch(`${origin}/v1/pets?limit=1`, { headers });
  const [next] = LinkHeader.parse(list.headers.get("Link") ?? "").rel("next");
  const [{ id }] = (await (await fetch(next?.uri ?? "", { headers })).json()) as [Pet];
  const one = await fetch(`${origin}/v1/pets/${id}`, { headers });
  const header = (name: string) => one.headers.get(name) ?? "";
  expect(LinkHeader.parse(header("Link")).refs).toEqual([
    { uri: `${origin}/v1/pets`, rel: "successor-version" },
    { uri: `${origin}/`, rel: "deprecation", type: "text/html" },
  ]);
  expect(parseItem(header("Deprecation"))[0]).toEqual(new Date("2026-11-19T00:00:00Z"));
  const windows = (name: string) =>
    parseList(header(name)).map(([window, parameters]) => [window, Object.fromEntries(parameters)]);
  expect(windows("RateLimit-Policy")).toEqual([
    ["minute", { q: 1_000, w: 60 }],
    ["day", { q: 100_000, w: 86_400 }],
  ]);
  expect(windows("RateLimit")).toEqual([
    ["minute", { r: Number(header("X-RateLimit-Remaining")), t: expect.any(Number) }],
    ["day", { r: expect.any(Number), t: expect.any(Number) }],
  ]);
});

// The compiler checks the types.
describe("hono's client with the type of the app", () => {
  it("adds a pet once in two attempts, gets it and lists it", async () => {
    const json = { name: "Hono", categoryId: 7, status: "sold" } as const;
    const options = { headers: { "Idempotency-Key": crypto.randomUUID() } };
    const added = await client().pets.$post({ json }, options);
    assert(added.status === 201);
    const pet = await added.json();
    expectTypeOf(pet).toEqualTypeOf<Pet>();
    expect(pet).toEqual({ id: pet.id, ...json });
    // @ts-expect-error: unknown field
    expect(pet.colour).toBeUndefined();
    expect(await (await client().pets.$post({ json }, options)).json()).toEqual(pet);

    const one = await client().pets[":petId"].$get({ param: { petId: `${pet.id}` } });
    assert(one.ok);
    const found = await one.json();
    expectTypeOf(found).toEqualTypeOf<Pet>();
    expect(found).toEqual(pet);
    const cursor = encodeCursor(BigInt(pet.id));
    const list = await client().pets.$get({ query: { limit: "100", status: "sold", cursor } });
    assert(list.status === 200);
    const pets = await list.json();
    expectTypeOf(pets).toEqualTypeOf<Pet[]>();
    expect(pets).toContainEqual(pet);
  });

  it("gets the usage of the key", async () => {
    const usage = await client().usage.$get();
    assert(usage.ok);
    const { plan, minute, bannedUntil, days } = await usage.json();
    expectTypeOf(plan).toEqualTypeOf<"free" | "pro" | "business" | "enterprise">();
    expectTypeOf(minute).toEqualTypeOf<{ limit: number; used: number; remaining: number; reset: number }>();
    expectTypeOf(bannedUntil).toEqualTypeOf<number | null>();
    expectTypeOf(days).toEqualTypeOf<{ date: string; admitted: number; refused: number }[]>();
    expect([plan, minute.limit, bannedUntil, days.length]).toEqual(["business", 1_000, null, 30]);
  });

  it("knows the error codes of each status", async () => {
    const missing = await client().pets[":petId"].$get({ param: { petId: "-1" } });
    assert(missing.status === 404);
    const notFound = await missing.json();
    expectTypeOf(notFound).toEqualTypeOf<{ code: "not_found"; message: string; status: 404 }>();
    expect(notFound).toEqual({ code: "not_found", message: MESSAGES.not_found.pet, status: 404 });

    type Refused<Status extends 401 | 429> = InferResponseType<
      ReturnType<typeof client>["pets"]["$get"],
      Status
    >;
    expectTypeOf<Refused<401>["code"]>().toEqualTypeOf<"unauthorized">();
    expectTypeOf<Refused<429>["code"]>().toEqualTypeOf<"rate_limit_exceeded" | "key_banned">();
  });

  it("does not compile requests that the service refuses", async () => {
    for (const response of [
      // @ts-expect-error: unknown status
      await client().pets.$get({ query: { status: "lost" } }),
      // @ts-expect-error: categoryId is required
      await client().pets.$post({ json: { name: "Rex" } }),
      // @ts-expect-error: categoryId is a number
      await client().pets.$post({ json: { name: "Rex", categoryId: "1" } }),
    ]) {
      assert(response.status === 400);
      expectTypeOf((await response.json()).code).toEqualTypeOf<"invalid_request">();
    }
  });
});

describe("openapi-fetch with types from openapi-typescript", () => {
  it("compiles a correct client, and rejects each mistake", async () => {
    const folder = await mkdtemp(join(tmpdir(), "petstore-test-"));
    onTestFinished(() => rm(folder, { recursive: true }));
    await symlink(resolve("node_modules"), join(folder, "node_modules"), "junction");
    const types = await openapiTS(Buffer.from(JSON.stringify(openApiDocument(""))));
    await writeFile(join(folder, "document.ts"), astToString(types));
    const program = await readFile("test/support/e2e/openapi-client.ts", "utf8");
    await writeFile(join(folder, "openapi-client.ts"), program.replace("// @ts-nocheck\n", ""));
    const outcome = await runScript("node_modules/@typescript/native/bin/tsc", [
      ...["--ignoreConfig", "--noEmit", "--skipLibCheck"],
      ...["--strict", "--exactOptionalPropertyTypes", "--noUncheckedIndexedAccess"],
      ...["--target", "esnext", "--module", "esnext", "--moduleResolution", "bundler"],
      "--allowImportingTsExtensions",
      join(folder, "openapi-client.ts"),
    ]);
    expect(outcome).toEqual({ exitCode: 0, stdout: "", stderr: "" });
  });

  it("adds a pet, lists pets and reads an error", async () => {
    const { pet, pets, error } = await exchange(`${origin}/v1`, key, fetch);
    expect(pet).toEqual({ id: expect.any(Number), name: "Zoë", categoryId: 2, status: "sold" });
    expect(pets).toEqual([expect.objectContaining({ status: "sold" })]);
    expect(error).toEqual({ code: "not_found", message: MESSAGES.not_found.pet, status: 404 });
  });
});
