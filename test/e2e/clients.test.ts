// A typed client with types generated from the published document.

import { mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import openapiTS, { astToString } from "openapi-typescript";
import { expect, it, onTestFinished } from "vitest";
import { openApiDocument } from "../../src/openapi/document.ts";
import { runScript } from "../support/e2e/petstore.ts";

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
