// The client package as its users get it: installed from the service into a new project, and used in every runtime and with every compiler
// that it supports, against the service. How it retries, waits and paces is tested elsewhere.

import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { copyFile, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join, relative, resolve } from "node:path";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { startWorkers } from "../../../bench/measure/workerd.ts";
import { VERSION } from "../../../client/src/version.ts";
import { ERROR_STATUS } from "../../../src/http/errors.ts";
import { PLACEHOLDERS } from "../../../src/samples/samples.ts";
import { CHROMIUM, newPage, openBrowser } from "../../support/e2e/browser.ts";
import { runProcess } from "../../support/e2e/petstore.ts";
import { sharedPetstore } from "../../support/e2e/shared-petstore.ts";
import type { run } from "./program.js";

const petstore = sharedPetstore();

/** Of programs that import only this, bundled, minified and compressed. */
const MAX_BYTES = { "* as all": 9 * 1024, "{ parse, stringify }": 614 };

/** A project in which the package is installed. */
let project: string;

beforeAll(async () => {
  project = await mkdtemp(join(tmpdir(), "petstore-test-"));
  const npm = (folder: string, ...args: string[]) => runIn(folder, "npm", [...args, "--loglevel=error"]);
  await writeFile(join(project, "package.json"), `{ "type": "module" }`);
  // The command of the guide. The package needs no other, so no registry is asked.
  const [, install = ""] =
    (await (await fetch(`${petstore.origin}/guide.md`)).text()).match(/^npm (install .*)$/m) ?? [];
  const [command = "", url = ""] = install.replace(PLACEHOLDERS.origin, petstore.origin).split(" ");
  await npm(project, command, "--no-audit", "--no-fund", "--registry=http://127.0.0.1:1/", url);
  await copyFile(join(import.meta.dirname, "program.js"), join(project, "program.js"));
  for (const name of ["types.mts", "types.cts", "worker.ts"]) {
    const text = await readFile(join(import.meta.dirname, name.replace(/\.[mc]ts/, ".ts")), "utf8");
    await writeFile(join(project, name), text.replace("// @ts-nocheck\n", ""));
  }
});

afterAll(() => rm(project, { recursive: true, force: true }));

/** Runs a program, and returns what it prints. Fails if the program does, or if it writes to standard error. */
async function runIn(folder: string, program: string, args: string[], environment?: NodeJS.ProcessEnv) {
  const { stdout, ...outcome } = await runProcess(program, args, environment, folder);
  expect(outcome, stdout).toEqual({ exitCode: 0, stderr: "" });
  return stdout;
}

type Report = Awaited<ReturnType<typeof run>>;

const USER_AGENT = `petstore-client/${VERSION}`;

/** Runs the program with a new key, and compares its report with what the service itself responds. */
async function expectCorrect(
  runProgram: (key: string) => Promise<unknown>,
  userAgent: string | null = USER_AGENT,
): Promise<void> {
  const { key } = await petstore.newKey("business");
  const { created, got, firstFive, sold, events, ...others } = (await runProgram(key)) as Report;
  const textOf = async (path: string) => (await petstore.call(path, key)).text();
  const ids = created.map((text) => /^{"id":(\d+)/.exec(text)?.[1]);
  expect(created).toEqual(await Promise.all(ids.map((id) => textOf(`/v1/pets/${id}`))));
  const categories = ["9223372036854775807", "-9223372036854775808", "9007199254740993", "0", "5"];
  expect(created.map((text) => /"categoryId":(-?\d+)/.exec(text)?.[1])).toEqual(categories);
  expect(got).toEqual(created);
  const text = await textOf("/v1/pets?limit=5");
  expect(firstFive).toEqual([text, text]);
  expect(sold.filter((id) => ids.includes(id)).sort()).toEqual(ids.sort());
  const error = [true, "not_found", 404];
  const [[callId] = []] = events;
  expect(callId).toBeTypeOf("number");
  expect(events).toEqual([
    [callId, "GET", 1],
    [callId, 200, "number"],
  ]);
  const limits = { plan: "business", minuteLimit: 1000 };
  expect(others).toEqual({ ...limits, error, hasRequestId: true, aborted: "stop", userAgent });
}

it("the package has its code, licence, README and changelog, of one version, and no dependency", async () => {
  const installed = join(project, "node_modules/petstore-client");
  const files = ["CHANGELOG.md", "LICENSE", "README.md", "dist", "package.json"];
  expect((await readdir(installed)).sort()).toEqual(files);
  expect(await readdir(join(project, "node_modules"))).toEqual([".package-lock.json", "petstore-client"]);
  const { version } = JSON.parse(await readFile(join(installed, "package.json"), "utf8"));
  const changelog = await readFile(join(installed, "CHANGELOG.md"), "utf8");
  const [, latest] = /^## \[(\d\S*)\] - (?:Unreleased|\d{4}-\d\d-\d\d)$/m.exec(changelog) ?? [];
  expect([version, latest]).toEqual([VERSION, VERSION]);
});

it("bundlers make the package small, and leave out what a program does not use", async () => {
  for (const [name, maxBytes] of Object.entries(MAX_BYTES)) {
    const contents = `import ${name} from "petstore-client"; console.log(${name.replace("* as", "")})`;
    const stdin = { contents, resolveDir: project };
    const { outputFiles } = await build({ stdin, bundle: true, minify: true, format: "esm", write: false });
    const bytes = gzipSync(outputFiles[0]?.contents ?? "", { level: 9 }).length;
    expect(bytes, name).toBeLessThanOrEqual(maxBytes);
    // Something was bundled.
    expect(bytes, name).toBeGreaterThan(maxBytes / 2);
  }
});

it("the code is readable: an uncaught error prints a short line, its source map the line of the source", async () => {
  const program = `import { Petstore } from "petstore-client"; new Petstore({ apiKey: "a b" });`;
  const printed = async (...options: string[]) =>
    (await runProcess(process.execPath, [...options, "--input-type=module", "--eval", program], {}, project))
      .stderr;
  const [place = "", line = "", arrow = ""] = (await printed()).split("\n");
  expect(place).toMatch(/\/dist\/index\.js:\d+$/);
  expect([line, arrow]).toEqual([expect.stringMatching(/^ +\S.{0,99}$/), expect.stringMatching(/^ *\^$/)]);
  expect(await printed("--enable-source-maps")).toContain("client/src/options.ts:");
});

const IMPORTS = {
  module: `import * as client from "petstore-client";`,
  commonjs: `const client = require("petstore-client");`,
};

it("errors are instances of the classes of both module systems, which have their names", async () => {
  const program = `
    const copies = [await import("petstore-client"), require("petstore-client")];
    const errors = copies.flatMap(({ Petstore, ...classes }) =>
      Object.values(classes).filter(({ prototype }) => prototype instanceof Error).map((Class) => new Class("", {})));
    for (const { Petstore, parse, stringify, ...classes } of copies)
      console.log(Petstore.name, JSON.stringify(errors.map((error) => [error.name, ...Object.entries(classes)
        .filter(([name, Class]) => Class.name === name && error instanceof Class).map(([name]) => name)])));
  `;
  const require = `import { createRequire } from "node:module"; const require = createRequire(process.cwd() + "/");`;
  const printed = await runIn(project, process.execPath, [
    "--input-type=module",
    "--eval",
    require + program,
  ]);
  const kinds = [
    ["ApiError", "ApiError", "PetstoreError"],
    ["ConnectionError", "ConnectionError", "PetstoreError"],
    ["PetstoreError", "PetstoreError"],
    ["RateLimitError", "ApiError", "PetstoreError", "RateLimitError"],
    ["TimeoutError", "ConnectionError", "PetstoreError", "TimeoutError"],
  ];
  const line = `Petstore ${JSON.stringify([...kinds, ...kinds])}\n`;
  expect(printed).toBe(line + line);
});

describe("Node", () => {
  const PLATFORM = `${process.platform}-${process.arch}`;
  const RUNTIMES = "test/support/e2e/runtimes/node_modules";

  /** The machine's, the one of the tests, and those that npm run proof -- runtimes has installed. */
  const NODES = [
    { version: "of the machine", node: "node" },
    { version: "of the tests", node: process.execPath },
    ...(existsSync(RUNTIMES) ? ["20", "26"] : []).map((version) => {
      return { version, node: `${RUNTIMES}/node-${version}-${PLATFORM}/bin/node` };
    }),
  ];

  const RUN = `import("./program.js").then(async ({ run }) => {
    const { PETSTORE_BASE_URL, PETSTORE_API_KEY } = process.env;
    const report = await run(client, PETSTORE_BASE_URL, PETSTORE_API_KEY);
    const { plan } = await new client.Petstore().usage();
    console.log(JSON.stringify({ node: process.version, ...report, plan }));
  });`;

  const CASES = NODES.flatMap((each) => [
    { ...each, type: "module" as const },
    { ...each, type: "commonjs" as const },
  ]);

  it.each(CASES)("Node $version: a $type calls the service", async ({ version, node, type }) => {
    await expectCorrect(async (key) => {
      const args = [`--input-type=${type}`, "--eval", IMPORTS[type] + RUN];
      const environment = { PETSTORE_BASE_URL: petstore.origin, PETSTORE_API_KEY: key };
      const { node: actual, ...report } = JSON.parse(
        await runIn(project, node === "node" ? node : resolve(node), args, environment),
      );
      expect(actual).toMatch(/^\d/.test(version) ? `v${version}.` : "v");
      return report;
    });
  });
});

const OTHERS = { bun: ["run"], deno: ["run", "--no-prompt", "--allow-net", "--allow-read"] };
const found = (name: string) => spawnSync(name, ["--version"]).status === 0;

for (const [name, args] of Object.entries(OTHERS)) {
  // Deno needs the permission to use the network, and none to read the environment.
  it.skipIf(!found(name))(`${name} calls the service`, async () => {
    await writeFile(
      join(project, "other.js"),
      `import * as client from "petstore-client";
      import { run } from "./program.js";
      console.log(JSON.stringify(await run(client, "${petstore.origin}", globalThis.Bun?.argv[2] ?? Deno.args[0])));`,
    );
    await expectCorrect(async (key) => JSON.parse(await runIn(project, name, [...args, "other.js", key])));
  });
}

const COMPILERS = { 5: "node_modules/typescript/bin/tsc", 7: "node_modules/@typescript/native/bin/tsc" };
/** TypeScript's own declarations are not ours to check, and take most of the time. */
const STRICT = [
  "--strict",
  "--exactOptionalPropertyTypes",
  "--noUncheckedIndexedAccess",
  "--skipDefaultLibCheck",
];

function compile(version: 5 | 7, resolution: string, args: readonly string[]) {
  const module = resolution === "bundler" ? "esnext" : resolution;
  const options = ["--noEmit", "--target", "es2022", "--module", module, "--moduleResolution", resolution];
  return runIn(project, process.execPath, [resolve(COMPILERS[version]), ...options, ...STRICT, ...args]);
}

const DOM = ["--lib", "es2022,dom"];
const NODE = ["--lib", "es2022", resolve("node_modules/@types/node/index.d.ts")];
const WORKERS = ["--lib", "es2022", resolve("node_modules/@cloudflare/workers-types/index.d.ts")];

it.for([
  [5, "the DOM", "node16", [...DOM, "types.mts", "types.cts"]],
  [7, "Node", "bundler", [...NODE, "types.mts"]],
  [7, "Workers", "bundler", [...WORKERS, "types.mts", "--allowJs", "worker.ts"]],
] as const)("TypeScript %i with types of %s and %s: programs compile, mistakes don't", async (row) => {
  const [version, , resolution, args] = row;
  await compile(version, resolution, args);
});

describe("README.md", () => {
  const text = readFileSync("client/README.md", "utf8");
  const example = [...text.matchAll(/```ts\n(.*?)```/gs)].map(([, code = ""]) => code).join("\n");
  const [inProject = ""] = readFileSync("README.md", "utf8").match(/(?<=```ts\n)import .*?(?=```)/s) ?? [];

  it("is one program, which compiles, runs, and prints what it says", async () => {
    const codes = [example, inProject];
    const files = codes.map((_, index) => join(project, `example-${index}.ts`));
    for (const [index, code] of codes.entries()) await writeFile(files[index] ?? "", code);
    await compile(7, "node16", [...NODE, ...files]);
    for (const [index, code] of codes.entries()) {
      const { key } = await petstore.newKey("business");
      const environment = { PETSTORE_BASE_URL: petstore.origin, PETSTORE_API_KEY: key };
      // The README fakes timers, which is experimental in Node 22.
      const args = ["--disable-warning=ExperimentalWarning", files[index] ?? ""];
      const printed = await runIn(project, process.execPath, args, environment);
      const lines = [...code.matchAll(/console\.log\(.*\)[;,] \/\/ (.*)$/gm)].map(([, line]) => line);
      expect(printed.split("\n"), code).toEqual(expect.arrayContaining(lines));
    }
  });

  it("has the options with their defaults, and all codes", () => {
    const defaults = [...text.matchAll(/^\| `(\w+)` \| (?:([\d,]+)(?: ms| bytes)?|false) \|/gm)];
    const source = readFileSync("client/src/options.ts", "utf8");
    for (const [, name, value] of defaults)
      expect(source).toMatch(new RegExp(`${name}(:| =) ${value?.replaceAll(",", "_") ?? false},`));
    expect(defaults).toHaveLength(8);
    for (const code of Object.keys(ERROR_STATUS)) expect(text).toContain(`\`${code}\``);
  });
});

it("a Worker calls the service from a client at module scope, in 20 requests after one was cancelled", async () => {
  const { promise: sent, resolve: receive } = Promise.withResolvers<void>();
  const silent = createServer(() => receive()).listen(0, "127.0.0.1");
  await once(silent, "listening");
  onTestFinished(() => void silent.close());
  const { key } = await petstore.newKey("business");
  const silentURL = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`;
  const values = { baseURL: petstore.origin, apiKey: key, silentURL };
  const { workers, stop } = await startWorkers([{ file: relative(".", join(project, "worker.ts")), values }]);
  onTestFinished(stop);
  const [{ url }] = workers;
  // A reset cancels the request in the Worker without an exception there.
  const cancelled = request(`${url.href}silent`, { agent: false }).end();
  await sent;
  cancelled.socket?.resetAndDestroy();
  await once(cancelled, "error");
  const responses = await Promise.all(Array.from({ length: 20 }, () => fetch(url)));
  expect(await Promise.all(responses.map((response) => response.text()))).toEqual(Array(20).fill("1000"));
  await expectCorrect(async () => (await fetch(new URL("/program", url))).json());
});

// There, pages lack some of the platform, such as crypto.randomUUID.
it.skipIf(CHROMIUM === undefined)("a page that is not served over HTTPS calls the service", async () => {
  const server = createServer(async ({ url = "" }, response) => {
    response.setHeader("Content-Type", url.endsWith(".js") ? "text/javascript" : "text/html");
    response.end(await readFile(join(project, url)).catch(() => ""));
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  const browser = await openBrowser(["--host-resolver-rules=MAP insecure.test 127.0.0.1"]);
  onTestFinished(() => browser.close());
  const page = await newPage(browser);
  const messages: string[] = [];
  page.on("console", (message) => messages.push(message.text()));
  await page.goto(`http://insecure.test:${(server.address() as AddressInfo).port}/`);
  expect(await page.evaluate("isSecureContext")).toBe(false);
  const imports = `import("/node_modules/petstore-client/dist/index.js"), import("/program.js")`;
  const runProgram = (key: string) => {
    const call = `run(client, "${petstore.origin}", "${key}")`;
    return page.evaluate(`Promise.all([${imports}]).then(([client, { run }]) => ${call})`);
  };
  // The browser's own.
  await expectCorrect(runProgram, null);
  // The response about the pet that is missing.
  expect(messages).toEqual([expect.stringContaining("404")]);
});
