// npm run build: writes the static assets into dist/: the OpenAPI document, the pages, the texts guide.md and llms.txt, and the
// client. wrangler runs it before it serves or deploys.

import { mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { gunzipSync } from "node:zlib";
import { build } from "esbuild";
import { DAYS_KEPT } from "../src/limits/index.ts";
import { changesForClients } from "../src/openapi/changes.ts";
import { openApiDocument } from "../src/openapi/document.ts";
import { REMEDIES } from "../src/openapi/errors.ts";
import { fill, fillGuide } from "../src/openapi/guide.ts";
import { consoleOperations, pageParts } from "../src/openapi/html.ts";
import { guideAsMarkdown } from "../src/openapi/markdown.ts";
import { packClient } from "./client-files.ts";

const SOURCE = "src/site";
/** Versions of the client that a deployment has published. */
const RELEASES = "client/releases";
const TARGET = "dist";

await buildSite();

/** Writes all files, and removes those of earlier builds. */
async function buildSite(): Promise<void> {
  const guide = fillGuide(await readFile("src/openapi/guide.md", "utf8"));
  const document = openApiDocument(guide);
  const { title, version, summary } = document.info;
  const changes = changesForClients(await readFile("CHANGELOG.md", "utf8"));
  const facts = { title, version, summary, daysKept: `${DAYS_KEPT}` };
  const values = { ...facts, ...pageParts(document, changes) };
  const page = async (name: string, path: string) => {
    const header = fill(await readFile(join(SOURCE, "header.html"), "utf8"), values);
    const ofPage = header.replace(`<a href="${path}">`, `<a href="${path}" aria-current="page">`);
    return fill(await readFile(join(SOURCE, name), "utf8"), { ...values, header: ofPage });
  };
  const files = new Map<string, string | Uint8Array>([
    ["openapi.json", JSON.stringify(document, null, 2)],
    ["guide.md", guideAsMarkdown(document, changes)],
    ["llms.txt", fillGuide(await readFile("src/openapi/llms.txt", "utf8"), facts)],
    ["index.html", await page("reference/index.html", "/")],
    ["usage.html", await page("usage/usage.html", "/usage")],
  ]);
  for (const name of ["_headers", "paw.svg"]) files.set(name, await readFile(join(SOURCE, name)));
  const scripts = ["reference/reference.ts", "usage/usage.ts"];
  const styles = ["style.css", "reference/reference.css", "usage/usage.css"];
  const { outputFiles } = await build({
    entryPoints: [...scripts, ...styles].map((name) => join(SOURCE, name)),
    outdir: TARGET,
    entryNames: "[name]",
    bundle: true,
    format: "esm",
    target: "es2022",
    minify: true,
    define: {
      REMEDIES: JSON.stringify(REMEDIES),
      OPERATIONS: JSON.stringify(consoleOperations(document)),
    },
    write: false,
  });
  for (const { path, contents } of outputFiles) files.set(relative(TARGET, path), contents);
  for (const [name, archive] of await clientPackages()) files.set(name, archive);
  for (const [name, contents] of files) await writeIfChanged(join(TARGET, name), contents);
  for (const entry of await readdir(TARGET, { recursive: true, withFileTypes: true })) {
    const file = join(entry.parentPath, entry.name);
    if (entry.isFile() && !files.has(relative(TARGET, file))) await rm(file, { force: true });
  }
}

/**
 * The client under the name of its version and under one that stays, and its earlier versions. A version that was published never changes,
 * because the lock files of its users have its hash.
 */
async function clientPackages(): Promise<Map<string, Uint8Array>> {
  const { name, archive } = await packClient();
  const all = new Map<string, Uint8Array>([[name, archive]]);
  for (const each of await readdir(RELEASES))
    if (each.endsWith(".tgz")) all.set(each, await readFile(join(RELEASES, each)));
  const published = all.get(name) ?? archive;
  // Another zlib compresses in another way.
  if (!gunzipSync(published).equals(gunzipSync(archive)))
    throw new Error(`${name} was published with other files: give client/package.json a new version`);
  return all.set("petstore-client.tgz", published);
}

/** Writes a file atomically, because a server may read it at any time, and not if it is the same, because wrangler watches it. */
async function writeIfChanged(file: string, contents: string | Uint8Array): Promise<void> {
  const bytes = Buffer.from(contents);
  const current = await readFile(file).catch(() => undefined);
  if (current && bytes.equals(current)) return;
  // Not in dist/, where another build would remove it.
  const temporary = `.wrangler/build-${process.pid}.tmp`;
  for (const folder of [dirname(temporary), dirname(file)]) await mkdir(folder, { recursive: true });
  await writeFile(temporary, bytes);
  await rename(temporary, file);
}
