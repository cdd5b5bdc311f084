// Typed clients: Hono's with the type of the app, and one with types generated from the published document.

import { mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { hc, type InferResponseType } from "hono/client";
import openapiTS, { astToString } from "openapi-typescript";
import { assert, expect, expectTypeOf, it, onTestFinished } from "vitest";
import type { Petstore } from "../../src/app.ts";
import { openApiDocument } from "../../src/openapi/document.ts";
import { encodeCursor } from "../../src/pets/cursor.ts";
import type { UsageBody } from "../../src/rate-limit/usage/usage-body.ts";
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

// The compiler checks the types.
it("hono's client has the types of all responses, and does not compile requests that the service refuses", async () => {
  const { key } = await petstore.newKey("free");
  const { pets, usage } = hc<Petstore>(petstore.origin, { headers: { Authorization: `Bearer ${key}` } }).v1;
  const json = { name: "Hono", categoryId: 7, status: "sold" } as const;
  const added = await pets.$post({ json });
  assert(added.status === 201);
  const pet = await added.json();
  expectTypeOf(pet).toEqualTypeOf<Pet>();
  expect(pet).toEqual({ id: pet.id, ...json });
  // @ts-expect-error: unknown field
  expect(pet.colour).toBeUndefined();

  const one = await pets[":petId"].$get({ param: { petId: `${pet.id}` } });
  assert(one.ok);
  expectTypeOf(await one.json()).toEqualTypeOf<Pet>();
  const list = await pets.$get({
    query: { limit: "100", status: "sold", cursor: encodeCursor(BigInt(pet.id)) },
  });
  assert(list.status === 200);
  const listed = await list.json();
  expectTypeOf(listed).toEqualTypeOf<Pet[]>();
  expect(listed).toContainEqual(pet);

  const used = await usage.$get();
  assert(used.ok);
  expectTypeOf(await used.json()).toEqualTypeOf<UsageBody>();

  const missing = await pets[":petId"].$get({ param: { petId: "-1" } });
  assert(missing.status === 404);
  expectTypeOf(await missing.json()).toEqualTypeOf<{ code: "not_found"; message: string; status: 404 }>();
  type Refused<Status extends 401 | 429> = InferResponseType<typeof pets.$get, Status>;
  expectTypeOf<Refused<401>["code"]>().toEqualTypeOf<"unauthorized">();
  expectTypeOf<Refused<429>["code"]>().toEqualTypeOf<"rate_limit_exceeded" | "key_banned">();

  for (const response of [
    // @ts-expect-error: unknown status
    await pets.$get({ query: { status: "lost" } }),
    // @ts-expect-error: categoryId is required
    await pets.$post({ json: { name: "Rex" } }),
    // @ts-expect-error: categoryId is a number
    await pets.$post({ json: { name: "Rex", categoryId: "1" } }),
  ]) {
    assert(response.status === 400);
    expectTypeOf((await response.json()).code).toEqualTypeOf<"invalid_request">();
  }
});

it("openapi-fetch with types from openapi-typescript compiles a correct client, and rejects each mistake", async () => {
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
