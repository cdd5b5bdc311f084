// npm run client: builds the client package, client/. Its types come from the published document: they are generated into
// client/src/schema.ts, and the command fails if its code does not fit them.

import { readFile, writeFile } from "node:fs/promises";
import openapiTS, { astToString } from "openapi-typescript";
import ts from "typescript";
import { OPERATIONS } from "../src/http/operations.ts";
import { openApiDocument } from "../src/openapi/document.ts";
import { buildClient } from "./client-files.ts";

const SCHEMA = "client/src/schema.ts";

const HEADER = "// Generated from the published document by `npm run client`. Don't change it.\n\n";

const isCheck = process.argv.includes("--check");
const types = HEADER + (await generateTypes());
const isCurrent = types === (await readFile(SCHEMA, "utf8").catch(() => ""));
if (isCheck && !isCurrent) throw new Error(`${SCHEMA} does not fit the document: run npm run client`);
if (!isCheck) {
  if (!isCurrent) await writeFile(SCHEMA, types);
  await buildClient();
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
