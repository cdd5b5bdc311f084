// Third-party clients over real sockets: they understand the headers, the types and the published document.

import { mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import got, { type Response as GotResponse } from "got";
import { hc, type InferResponseType } from "hono/client";
import LinkHeader from "http-link-header";
import openapiTS, { astToString } from "openapi-typescript";
import { parseItem, parseList } from "structured-headers";
import { assert, beforeAll, describe, expect, expectTypeOf, it, onTestFinished } from "vitest";
import type { Petstore } from "../../src/app.ts";
import { MESSAGES } from "../../src/http/messages.ts";
import { createKey } from "../../src/keys/admin.ts";
import { openApiDocument } from "../../src/openapi/document.ts";
import { exchange } from "../support/e2e/openapi-client.ts";
import { type Outcome, runScript } from "../support/e2e/petstore.ts";
import { sharedPetstore } from "../support/e2e/shared-petstore.ts";
import { findViolations } from "../support/openapi-validator.ts";
import { startIsolates } from "./isolates/isolates.ts";

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

/** Validates the response against the published document. */
async function documentedFetch(input: string | URL | Request, init?: RequestInit): Promise<Response> {
  const request = new Request(input, init);
  const response = await fetch(request);
  const { status, headers } = response;
  await expectDocumented(request.method, request.url, status, headers, await response.clone().text());
  return response;
}

async function expectDocumented(
  method: string,
  url: string,
  status: number,
  headers: Iterable<[string, string]>,
  body: string,
) {
  const { pathname, search } = new URL(url);
  const exchanged = { method, path: pathname + search, status, headers: Object.fromEntries(headers), body };
  expect(await findViolations(exchanged), `${method} ${url}: ${status}`).toEqual([]);
}

async function addPet(name: string): Promise<Pet> {
  const response = await documentedFetch(`${origin}/v1/pets`, {
    method: "POST",
    headers: { ...headers, "Content-Type": "application/json" },
    body: JSON.stringify({ name, categoryId: 1 }),
  });
  expect(response.status).toBe(201);
  return (await response.json()) as Pet;
}

describe("got", () => {
  it("waits for Retry-After after a 429, and is then admitted", async () => {
    const isolates = await startIsolates();
    onTestFinished(() => isolates.stop());
    const nowMs = await isolates.advance(38_000);
    expect(new Date(nowMs).toISOString()).toBe("2026-11-20T12:34:58.500Z");
    const limits = { minute: 1, day: 1_000 };
    const owner = { name: "got", plan: "enterprise", limits, expiresAtMs: null } as const;
    const { secret } = await createKey(isolates.database, owner, { by: "test", nowMs });
    const headers = { Authorization: `Bearer ${secret}` };
    const url = new URL("/v1/pets", isolates.url);
    await got(url, { headers });

    const responses: GotResponse[] = [];
    const delays: { retryAfter: string | undefined; delayMs: number }[] = [];
    const response = await got<Pet[]>(url, {
      headers,
      responseType: "json",
      retry: {
        calculateDelay: ({ error, computedValue: delayMs }) => {
          delays.push({ retryAfter: error.response?.headers["retry-after"], delayMs });
          return delayMs;
        },
      },
      hooks: {
        // The assertions come later: got would retry after an error that is thrown here.
        afterResponse: [
          (received) => {
            responses.push(received);
            return received;
          },
        ],
        // The service's clock is stopped, and advanced by got's delay: a Retry-After that is too short leads to a second 429.
        beforeRetry: [async () => void (await isolates.advance(delays.at(-1)?.delayMs ?? 0))],
      },
    });
    expect(delays).toEqual([{ retryAfter: "2", delayMs: 2_000 }]);
    expect(responses.map(({ statusCode }) => statusCode)).toEqual([429, 200]);
    for (const { url, statusCode, headers: received, body } of responses) {
      const found = Object.entries(received) as [string, string][];
      await expectDocumented("GET", url, statusCode, found, JSON.stringify(body));
    }
    expect(response.body).toEqual([]);
  });
});

describe("http-link-header", () => {
  it("follows the pages to every pet exactly once", async () => {
    const added: Pet[] = [];
    for (const name of ["Ada", "Bob", "Cleo", "Dino", "Elsa", "Fips", "Gina"]) added.push(await addPet(name));

    const pages: Pet[][] = [];
    for (let next: string | undefined = `${origin}/v1/pets?limit=2`; next !== undefined; ) {
      const response: Response = await documentedFetch(next, { headers });
      pages.push((await response.json()) as Pet[]);
      next = LinkHeader.parse(response.headers.get("Link") ?? "").rel("next")[0]?.uri;
    }
    const ids = pages.flat().map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
    expect(pages.flat()).toEqual(expect.arrayContaining(added));
    expect(pages.length).toBe(Math.ceil(ids.length / 2));
  });

  it("reads the successor and the documentation of a deprecated operation", async () => {
    const { id } = await addPet("Methuselah");
    const response = await documentedFetch(`${origin}/v1/pets/${id}`, { headers });
    const links = LinkHeader.parse(response.headers.get("Link") ?? "");
    expect(links.rel("successor-version")).toEqual([{ uri: `${origin}/v1/pets`, rel: "successor-version" }]);
    expect(links.rel("deprecation")).toEqual([{ uri: `${origin}/`, rel: "deprecation", type: "text/html" }]);
  });
});

describe("structured-headers", () => {
  it("reads the same windows from RateLimit and RateLimit-Policy as from the X-RateLimit headers", async () => {
    const { id } = await addPet("Structura");
    const { headers: found } = await documentedFetch(`${origin}/v1/pets/${id}`, { headers });
    expect(windows(found.get("RateLimit-Policy"))).toEqual([
      ["minute", { q: 1_000, w: 60 }],
      ["day", { q: 100_000, w: 86_400 }],
    ]);
    const [minute, day] = windows(found.get("RateLimit")).map(([, parameters]) => parameters);
    assert(minute?.r !== undefined && minute.t !== undefined && day?.r !== undefined && day.t !== undefined);
    expect(windows(found.get("RateLimit"))).toEqual([
      ["minute", { r: minute.r, t: minute.t }],
      ["day", { r: day.r, t: day.t }],
    ]);

    // The minute is the tighter window.
    expect(found.get("X-RateLimit-Limit")).toBe("1000");
    expect(found.get("X-RateLimit-Remaining")).toBe(`${minute.r}`);
    expect([0 < minute.r && minute.r < 1_000, 0 < day.r && day.r < 100_000]).toEqual([true, true]);
    const resetSeconds = Number(found.get("X-RateLimit-Reset"));
    expect([resetSeconds % 60, 1 <= minute.t && minute.t <= 60]).toEqual([0, true]);
    // Both t are relative to the same instant, so the day ends at midnight.
    expect((resetSeconds - minute.t + day.t) % 86_400).toBe(0);
  });

  it("reads the date of the deprecation", async () => {
    const { id } = await addPet("Vetus");
    const response = await documentedFetch(`${origin}/v1/pets/${id}`, { headers });
    const [deprecatedAt] = parseItem(response.headers.get("Deprecation") ?? "");
    expect(deprecatedAt).toEqual(new Date("2026-11-19T00:00:00Z"));
  });

  /** The names and parameters of a list. */
  function windows(header: string | null) {
    return parseList(header ?? "").map(([name, parameters]) => {
      for (const value of parameters.values()) expect(value).toSatisfy(Number.isInteger);
      return [name, Object.fromEntries(parameters) as Record<string, number>] as const;
    });
  }
});

// The compiler checks the types.
describe("hono's client with the type of the app", () => {
  const client = () => hc<Petstore>(origin, { headers, fetch: documentedFetch }).v1;

  it("adds a pet, gets it and lists it", async () => {
    const added = await client().pets.$post({ json: { name: "Hono", categoryId: 7, status: "sold" } });
    assert(added.status === 201);
    const pet = await added.json();
    expectTypeOf(pet).toEqualTypeOf<Pet>();
    expect(pet).toEqual({ id: pet.id, name: "Hono", categoryId: 7, status: "sold" });
    // @ts-expect-error: unknown field
    expect(pet.colour).toBeUndefined();

    const one = await client().pets[":petId"].$get({ param: { petId: `${pet.id}` } });
    assert(one.ok);
    const found = await one.json();
    expectTypeOf(found).toEqualTypeOf<Pet>();
    expect(found).toEqual(pet);

    const list = await client().pets.$get({ query: { limit: "100", status: "sold" } });
    assert(list.status === 200);
    const pets = await list.json();
    expectTypeOf(pets).toEqualTypeOf<Pet[]>();
    expect(pets).toContainEqual(pet);
  });

  it("sends an Idempotency-Key, so that a retry adds no second pet", async () => {
    const json = { name: "Bello", categoryId: 1 };
    const options = { headers: { "Idempotency-Key": "order-4711" } };
    const [first, second] = [
      await client().pets.$post({ json }, options),
      await client().pets.$post({ json }, options),
    ];
    assert(first.status === 201 && second.status === 201);
    expect(await second.json()).toEqual(await first.json());
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

    const keyless = await hc<Petstore>(origin, { fetch: documentedFetch }).v1.usage.$get();
    assert(keyless.status === 401);
    const { code } = await keyless.json();
    expectTypeOf(code).toEqualTypeOf<"unauthorized">();
    expect(code).toBe("unauthorized");

    type Refused = InferResponseType<ReturnType<typeof client>["pets"]["$get"], 429>;
    expectTypeOf<Refused["code"]>().toEqualTypeOf<"rate_limit_exceeded" | "key_banned">();
  });

  it("does not compile requests that the service refuses", async () => {
    const responses = [
      // @ts-expect-error: unknown status
      await client().pets.$get({ query: { status: "lost" } }),
      // @ts-expect-error: categoryId is required
      await client().pets.$post({ json: { name: "Rex" } }),
      // @ts-expect-error: categoryId is a number
      await client().pets.$post({ json: { name: "Rex", categoryId: "1" } }),
    ];
    for (const response of responses) {
      assert(response.status === 400);
      const { code } = await response.json();
      expectTypeOf(code).toEqualTypeOf<"invalid_request">();
      expect(code).toBe("invalid_request");
    }
  });
});

describe("openapi-fetch with types from openapi-typescript", () => {
  const document = JSON.stringify(openApiDocument(""));

  it("compiles a correct client, and rejects each mistake", async () => {
    expect(await compile(document)).toEqual({ exitCode: 0, stdout: "", stderr: "" });
  });

  it("rejects the client if the document differs", async () => {
    const { exitCode, stdout } = await compile(document.replaceAll('"not_found"', '"missing"'));
    expect(exitCode).not.toBe(0);
    expect(stdout).toContain(`Type '"missing"' is not assignable to type '"not_found"'`);
  });

  it("adds a pet, lists pets and reads an error", async () => {
    const { pet, pets, error } = await exchange(`${origin}/v1`, key, documentedFetch);
    expect(pet).toEqual({ id: expect.any(Number), name: "Zoë", categoryId: 2, status: "sold" });
    expect(pets).toEqual([expect.objectContaining({ status: "sold" })]);
    expect(error).toEqual({ code: "not_found", message: MESSAGES.not_found.pet, status: 404 });
  });
});

/** Compiles openapi-client.ts with types generated from a document in JSON. */
async function compile(document: string): Promise<Outcome> {
  const folder = await mkdtemp(join(tmpdir(), "petstore-test-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  await symlink(resolve("node_modules"), join(folder, "node_modules"), "junction");
  const types = await openapiTS(Buffer.from(document));
  await writeFile(join(folder, "document.ts"), astToString(types));
  const program = await readFile("test/support/e2e/openapi-client.ts", "utf8");
  await writeFile(join(folder, "openapi-client.ts"), program.replace("// @ts-nocheck\n", ""));
  return runScript("node_modules/@typescript/native/bin/tsc", [
    ...["--ignoreConfig", "--noEmit", "--skipLibCheck"],
    ...["--strict", "--exactOptionalPropertyTypes", "--noUncheckedIndexedAccess"],
    ...["--target", "esnext", "--module", "esnext", "--moduleResolution", "bundler"],
    "--allowImportingTsExtensions",
    join(folder, "openapi-client.ts"),
  ]);
}
