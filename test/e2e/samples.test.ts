// The code samples of the published document and of the console: each runs as it stands against the service. Also a client with types that are generated from the document.

import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import openapiTS, { astToString } from "openapi-typescript";
import { afterAll, assert, beforeAll, describe, expect, it } from "vitest";
import { Petstore } from "../../client/src/index.ts";
import { OPERATION_IDS, type OperationId } from "../../src/http/operations.ts";
import { openApiDocument } from "../../src/openapi/document.ts";
import { fillGuide } from "../../src/openapi/guide.ts";
import { codeSamples, consoleOperation } from "../../src/openapi/inputs.ts";
import { DESCRIPTIONS } from "../../src/openapi/operations.ts";
import type { Values } from "../../src/samples/operation.ts";
import { LANGUAGES, type Language, PLACEHOLDERS, sampleOf } from "../../src/samples/samples.ts";
import { runProcess, runScript } from "../support/e2e/petstore.ts";
import { sharedPetstore } from "../support/e2e/shared-petstore.ts";
import { PATIENT } from "../support/hang.ts";

/** What runs a file of each language, and what it needs. */
const RUNNERS: Record<Language, { program: string; needs: string[] }> = {
  curl: { program: "sh", needs: ["curl", "--version"] },
  TypeScript: { program: process.execPath, needs: [process.execPath, "--version"] },
  Python: { program: "python3", needs: ["python3", "-c", "import requests"] },
};

const missing = new Set<Language>();
for (const language of LANGUAGES) {
  const [program = "", ...args] = RUNNERS[language].needs;
  if ((await runProcess(program, args)).exitCode === 0) continue;
  missing.add(language);
  process.stderr.write(`${RUNNERS[language].needs.join(" ")} fails: skipping the samples for ${language}.\n`);
}

const petstore = sharedPetstore();
let folder: string;
let key: string;
let pets: Petstore["pets"];

/** More than a page of pets. */
const NAMES = Array.from({ length: 101 }, (_, index) => `Sample ${1000 + index}`);

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "petstore-test-"));
  const client = join(folder, "node_modules/petstore-client");
  await mkdir(client, { recursive: true });
  // The sources, because other tests may be building the package; linked, because Node runs no TypeScript in node_modules.
  await symlink(resolve("client/src"), join(client, "src"), "junction");
  await writeFile(join(client, "package.json"), '{ "exports": "./src/index.ts" }');
  await writeFile(join(folder, "package.json"), '{ "type": "module" }');
  ({ key } = await petstore.newKey("business"));
  // It retries: on a machine that stalls, wrangler's proxy loses connections, and answers 500 without the pet.
  ({ pets } = new Petstore({ apiKey: key, baseURL: petstore.origin, ...PATIENT }));
  await Promise.all(NAMES.map((name) => pets.create({ name, categoryId: 1n })));
});

afterAll(() => rm(folder, { recursive: true }));

/** Writes a program into a file, and runs it. */
async function run(language: Language, name: string, source: string) {
  const file = join(folder, `${name}.${language === "TypeScript" ? "ts" : language}`);
  await writeFile(file, source);
  return runProcess(RUNNERS[language].program, [file]);
}

/** What the document publishes, with this address and this key. */
function published(language: Language, id: OperationId, apiKey: string): string {
  const { source } =
    codeSamples(id, DESCRIPTIONS[id]).find(({ label }) => label === language) ?? assert.fail();
  return source.replaceAll(PLACEHOLDERS.origin, petstore.origin).replaceAll(PLACEHOLDERS.key, apiKey);
}

const sample = (language: Language, id: OperationId, values: Values) =>
  sampleOf(consoleOperation(id, DESCRIPTIONS[id]), language, { origin: petstore.origin, key }, values);

/** The loop of the guide. */
async function pagination(apiKey: string): Promise<string> {
  const guide = fillGuide(await readFile("src/openapi/guide.md", "utf8"));
  const [, source = ""] = guide.match(/```python\n(.*?)```/s) ?? [];
  return source.replaceAll(PLACEHOLDERS.origin, petstore.origin).replaceAll(PLACEHOLDERS.key, apiKey);
}

describe.each(LANGUAGES.filter((language) => !missing.has(language)))("%s", (language) => {
  it("the published sample of each operation works", async () => {
    const outcomes = OPERATION_IDS.map(async (id) => {
      const { exitCode, stderr } = await run(language, id, published(language, id, key));
      return [id, exitCode, stderr.match(/error/i)];
    });
    expect(await Promise.all(outcomes)).toEqual(OPERATION_IDS.map((id) => [id, 0, null]));
  });

  it("sends each value of a pet as it is, whatever its language makes of it", async () => {
    const name = `O'Hara's "\\n" $(id) \`id\` %s \\ é😀 !!\t`;
    const values = {
      name,
      categoryId: "-9223372036854775808",
      status: "sold",
      "Idempotency-Key": `"${language}'s"`,
    };
    const { exitCode, stdout, stderr } = await run(
      language,
      "createPet",
      sample(language, "createPet", values),
    );
    expect(exitCode, stderr).toBe(0);
    const [, id = ""] = stdout.match(/\bid\W+(\d+)/) ?? [];
    const pet = await pets.get(BigInt(id));
    expect(pet).toEqual({ id: BigInt(id), name, categoryId: -9223372036854775808n, status: "sold" });
    // A request with the same Idempotency-Key and body: the key was sent as it is, too.
    const again = await pets.create(pet, { idempotencyKey: values["Idempotency-Key"] });
    expect(again).toEqual(pet);
  });

  it("sends each parameter", async () => {
    for (const name of ["Ada", "Bo"]) await pets.create({ name, categoryId: 1n, status: "pending" });
    const { next } = await pets.list({ limit: 1, status: "pending" });
    const values = { limit: "1", status: "pending", cursor: next?.cursor ?? "", Prefer: "server-timing" };
    const { stdout } = await run(language, "listPets", sample(language, "listPets", values));
    const { pets: expected } = await pets.list(next);
    const [pet = assert.fail()] = expected;
    expect([stdout.match(/\bid\W+\d+/g)?.length, stdout]).toEqual([
      1,
      expect.stringMatching(new RegExp(`\\bid\\W+${pet.id}\\D`)),
    ]);
    const { stdout: got } = await run(language, "getPet", sample(language, "getPet", { petId: `${pet.id}` }));
    expect(got).toMatch(new RegExp(`\\bid\\W+${pet.id}\\D`));
  });

  it("ends and says why when the day is used up", async () => {
    const { key: used } = await petstore.newKey("enterprise", { day: 1 });
    await petstore.call("/v1/pets", used);
    const { exitCode, stdout, stderr } = await run(language, "used", published(language, "createPet", used));
    expect([exitCode, stdout + stderr]).toEqual([
      language === "curl" ? 0 : 1,
      expect.stringContaining("limit of 1 requests per day exceeded"),
    ]);
  });
});

describe.skipIf(missing.has("Python"))("the loop of the guide", () => {
  it("prints the pets of all pages, and ends and says why when the day is used up", async () => {
    const { stdout } = await run("Python", "pages", await pagination(key));
    expect(stdout.match(/Sample \d+/g)?.sort()).toEqual(NAMES);
    const { key: used } = await petstore.newKey("enterprise", { day: 1 });
    await petstore.call("/v1/pets", used);
    const { exitCode, stderr } = await run("Python", "pages", await pagination(used));
    expect([exitCode, stderr]).toEqual([1, expect.stringContaining("429")]);
  });
});

it("the samples for TypeScript compile, and a client of openapi-fetch with types of the document, but for its mistakes", async () => {
  const files = OPERATION_IDS.map((id) => join(folder, `${id}.ts`));
  for (const [index, id] of OPERATION_IDS.entries())
    await writeFile(files[index] ?? "", published("TypeScript", id, key));
  for (const name of ["openapi-fetch", "openapi-typescript-helpers"])
    await symlink(resolve("node_modules", name), join(folder, "node_modules", name), "junction");
  const types = await openapiTS(Buffer.from(JSON.stringify(openApiDocument(""))));
  await writeFile(join(folder, "document.ts"), astToString(types));
  const program = await readFile("test/support/e2e/openapi-client.ts", "utf8");
  files.push(join(folder, "openapi-client.ts"));
  await writeFile(join(folder, "openapi-client.ts"), program.replace("// @ts-nocheck\n", ""));
  const outcome = await runScript("node_modules/@typescript/native/bin/tsc", [
    ...["--ignoreConfig", "--noEmit", "--skipLibCheck"],
    ...["--strict", "--exactOptionalPropertyTypes", "--noUncheckedIndexedAccess"],
    ...["--target", "esnext", "--module", "esnext", "--moduleResolution", "bundler"],
    ...["--allowImportingTsExtensions", ...files],
  ]);
  expect(outcome).toEqual({ exitCode: 0, stdout: "", stderr: "" });
});
