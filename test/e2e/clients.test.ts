// Typed clients: Hono's with the type of the app, and one with types generated from the published document.

import { mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { hc, type InferResponseType } from "hono/client";
import openapiTS, { astToString } from "openapi-typescript";
import { expect, expectTypeOf, it, onTestFinished } from "vitest";
import type { Petstore } from "../../src/app.ts";
import type { UsageBody } from "../../src/keys/usage/usage-body.ts";
import { openApiDocument } from "../../src/openapi/document.ts";
import { runScript } from "../support/e2e/petstore.ts";

/** A pet, parsed with JSON.parse. */
interface Pet {
  id: number;
  name: string;
  categoryId: number;
  status?: "available" | "pending" | "sold" | undefined;
}

// The compiler checks the types. Nothing is sent.
it("hono's client has the types of all requests and responses", () => {
  const { pets, usage } = hc<Petstore>("").v1;
  type Listed<Status extends 200 | 400 | 401 | 429> = InferResponseType<typeof pets.$get, Status>;
  type Got<Status extends 200 | 404> = InferResponseType<(typeof pets)[":petId"]["$get"], Status>;
  expectTypeOf<InferResponseType<typeof pets.$post, 201>>().toEqualTypeOf<Pet>();
  expectTypeOf<Listed<200>>().toEqualTypeOf<Pet[]>();
  expectTypeOf<Got<200>>().toEqualTypeOf<Pet>();
  expectTypeOf<InferResponseType<typeof usage.$get, 200>>().toEqualTypeOf<UsageBody>();
  expectTypeOf<Got<404>>().toEqualTypeOf<{ code: "not_found"; message: string; status: 404 }>();
  expectTypeOf<Listed<400>["code"]>().toEqualTypeOf<"invalid_request">();
  expectTypeOf<Listed<401>["code"]>().toEqualTypeOf<"unauthorized">();
  expectTypeOf<Listed<429>["code"]>().toEqualTypeOf<"rate_limit_exceeded" | "key_banned">();

  type List = Parameters<typeof pets.$get>[0];
  type Addition = Parameters<typeof pets.$post>[0];
  expectTypeOf<{ query: { limit: string; status: "sold"; cursor: string } }>().toExtend<List>();
  expectTypeOf<{ query: { status: "lost" } }>().not.toExtend<List>();
  expectTypeOf<{ json: { name: string; categoryId: number } }>().toExtend<Addition>();
  expectTypeOf<{ json: { name: string } }>().not.toExtend<Addition>();
  expectTypeOf<{ json: { name: string; categoryId: string } }>().not.toExtend<Addition>();
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
    ...["--allowImportingTsExtensions", join(folder, "openapi-client.ts")],
  ]);
  expect(outcome).toEqual({ exitCode: 0, stdout: "", stderr: "" });
});
