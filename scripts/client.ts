// npm run client: builds the client package, client/. Its types come from the published document: they are generated into
// client/src/schema.ts, and the build fails if its code does not fit them.

import { execFileSync } from "node:child_process";
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { build } from "esbuild";
import openapiTS, { astToString } from "openapi-typescript";
import ts from "typescript";
import { OPERATIONS } from "../src/http/operations.ts";
import { openApiDocument } from "../src/openapi/document.ts";

const FOLDER = "client";
const SCHEMA = join(FOLDER, "src/schema.ts");
const DIST = join(FOLDER, "dist");
const TSC = "node_modules/@typescript/native/bin/tsc";

const HEADER = "// Generated from the published document by `npm run client`. Don't change it.\n\n";

const isCheck = process.argv.includes("--check");
const types = HEADER + (await generateTypes());
const isCurrent = types === (await readFile(SCHEMA, "utf8").catch(() => ""));
if (isCheck && !isCurrent) throw new Error(`${SCHEMA} does not fit the document: run npm run client`);
if (!isCheck) {
  if (!isCurrent) await writeFile(SCHEMA, types);
  await buildPackage();
}

/** The schemas of the document, and the parameters of a list, as TypeScript. An int64 is a bigint. */
async function generateTypes(): Promise<string> {
  const { paths, components } = JSON.parse(JSON.stringify(openApiDocument("")));
  const { method, path } = OPERATIONS.listPets;
  const parameters = paths[path][method].parameters as {
    name: string;
    in: string;
    description: string;
    schema: object;
  }[];
  const inQuery = parameters.filter((each) => each.in === "query");
  const properties = inQuery.map(({ name, description, schema }) => [name, { ...schema, description }]);
  const schemas = {
    ...components.schemas,
    ListParameters: { type: "object", properties: Object.fromEntries(properties) },
  };
  const info = { title: "", version: "" };
  const nodes = await openapiTS(
    { openapi: "3.1.0", info, paths: {}, components: { schemas } },
    {
      defaultNonNullable: false,
      transform({ format }) {
        return format === "int64" ? ts.factory.createKeywordTypeNode(ts.SyntaxKind.BigIntKeyword) : undefined;
      },
    },
  );
  // Each schema by its name, instead of `components["schemas"]`.
  const [, types = ""] = astToString(nodes).match(/^ {4}schemas: {\n(.*?)^ {4}}/ms) ?? [];
  return types
    .replace(/^ {8}/gm, "")
    .replace(/^(\w+): /gm, "export type $1 = ")
    .replace(/components\["schemas"\]\["(\w+)"\]/g, "$1")
    .replaceAll("@description ", "")
    .replace(/^ *\* (Format:|@enum) .*\n/gm, "")
    .replace(/\/\*\*\n *\* (.*)\n *\*\//g, "/** $1 */");
}

/** ECMAScript modules in dist/, and the same as CommonJS in dist/cjs/, each with its declarations. */
async function buildPackage(): Promise<void> {
  await rm(DIST, { recursive: true, force: true });
  const commonJs = join(DIST, "cjs");
  await mkdir(commonJs, { recursive: true });
  const entryPoints = [join(FOLDER, "src/index.ts")];
  // Small: classes that programs see have their names as a static property. Debuggers show the source. Node prints the line that threw
  // an uncaught error.
  const small = { minify: true, sourcemap: true, lineLimit: 200 };
  const options = { entryPoints, bundle: true, target: "es2022", ...small };
  await build({ ...options, format: "esm", outfile: join(DIST, "index.js") });
  await build({ ...options, format: "cjs", outfile: join(commonJs, "index.js") });
  const declarations = ["--project", FOLDER, "--noEmit", "false", "--emitDeclarationOnly", "--declaration"];
  execFileSync(process.execPath, [TSC, ...declarations, "--outDir", DIST], { stdio: "inherit" });
  for (const name of await readdir(DIST)) {
    if (!name.endsWith(".d.ts")) continue;
    // The compiler leaves the names of the sources.
    const source = await readFile(join(DIST, name), "utf8");
    const text = source.replace(/(?<=(from |import\()"\.\/[\w-]+)\.ts(?=")/g, ".js");
    for (const folder of [DIST, commonJs]) await writeFile(join(folder, name), text);
  }
  // In the package's own package.json, "type" is "module".
  await writeFile(join(commonJs, "package.json"), '{ "type": "commonjs" }\n');
}
