// The code samples of the published document: each runs as it stands against the service, with only its placeholders filled in. Also
// a client with types that are generated from the document.

import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import openapiTS, { astToString } from "openapi-typescript";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Petstore } from "../../client/src/index.ts";
import { OPERATION_IDS, type OperationId } from "../../src/http/operations.ts";
import { openApiDocument } from "../../src/openapi/document.ts";
import { SAMPLES } from "../../src/openapi/samples.ts";
import { fillSample, PLACEHOLDERS } from "../../src/site/reference/sample.ts";
import { runProcess, runScript } from "../support/e2e/petstore.ts";
import { sharedPetstore } from "../support/e2e/shared-petstore.ts";
import { PATIENT } from "../support/hang.ts";

/** What runs a file, and what it needs. */
const LANGUAGES = [
  { lang: "Shell", program: "sh", needs: ["curl", "--version"] },
  { lang: "TypeScript", program: process.execPath, needs: [process.execPath, "--version"] },
  { lang: "Python", program: "python3", needs: ["python3", "-c", "import requests"] },
];

const missing = new Set<string>();
for (const { lang, needs } of LANGUAGES) {
  const [program = "", ...args] = needs;
  if ((await runProcess(program, args)).exitCode === 0) continue;
  missing.add(lang);
  process.stderr.write(`${needs.join(" ")} fails: skipping the samples for ${lang}.\n`);
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

/** The file of a sample, about another pet than the first. Without a key, its placeholder stays. */
async function write(lang: string, operation: OperationId, key = "", petId = 1n): Promise<string> {
  const { source = "" } = SAMPLES[operation].find((sample) => sample.lang === lang) ?? {};
  const file = join(folder, `${operation}.${lang === "TypeScript" ? "ts" : lang}`);
  const filled = fillSample(source, { origin: petstore.origin, key });
  await writeFile(file, filled.replace(/(?<=\/pets\/)1\b|\b1(?=n\b)/g, `${petId}`));
  return file;
}

// curl -i shows the error instead, and the client throws it.
it.skipIf(missing.has("Python")).each(OPERATION_IDS)("the Python of %s fails without a key", async (id) => {
  const { exitCode, stderr } = await runProcess("python3", [await write("Python", id)]);
  expect([exitCode, stderr]).toEqual([1, expect.stringContaining("401")]);
});

/** What the sample of each operation must have printed or done. */
const CHECKS: Record<OperationId, (printed: string, lang: string, petId: bigint) => unknown> = {
  listPets(printed, lang) {
    if (lang !== "Shell") return expect(printed.match(/Sample \d+/g)?.sort()).toEqual(NAMES);
    expect(printed.match(/"id":/g)).toHaveLength(100);
    expect(printed).toContain('rel="next"');
  },
  async createPet(printed) {
    const [, id] = printed.match(/\bid\W+(\d+)n?,.*categoryId\W+9223372036854775807\D/s) ?? [];
    const fields = '"name":"Zoë","categoryId":9223372036854775807,"status":"available"';
    expect(await (await petstore.call(`/v1/pets/${id}`, key)).text()).toBe(`{"id":${id},${fields}}`);
  },
  getPet: (printed, _, petId) => expect(printed).toMatch(new RegExp(`\\bid\\W+${petId}\\D`)),
  // What is left of 1,000 and of 100,000 requests.
  getUsage: (printed) => expect(printed).toMatch(/business.*\b(1000|\d{3})\b.*\b99\d{3}\b/s),
};

describe.each(LANGUAGES)("$lang", ({ lang, program }) => {
  it.skipIf(missing.has(lang)).each(OPERATION_IDS)("the sample of %s works", async (operation) => {
    const { id } = await pets.create({ name: "Rex", categoryId: 1n });
    const file = await write(lang, operation, key, id);
    const { exitCode, stdout, stderr } = await runProcess(program, [file]);
    expect(exitCode, stderr).toBe(0);
    await CHECKS[operation](stdout, lang, id);
  });
});

it("the samples for TypeScript compile, and a client of openapi-fetch with types of the document, but for its mistakes", async () => {
  const files = await Promise.all(OPERATION_IDS.map((operation) => write("TypeScript", operation)));
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

it("a value that a language could read as code leaves the placeholder", () => {
  const source = Object.values(PLACEHOLDERS).join(" ");
  for (const value of ["", "$(ls)", "`ls`", 'a"', "a'", "a\\", "a b"]) {
    expect(fillSample(source, { origin: value, key: value })).toBe(source);
  }
  expect(fillSample(source, { origin: "http://[::1]:8787", key: "pet_••" })).toBe("http://[::1]:8787 pet_••");
});
