// npm run build: writes the static assets into dist/: the OpenAPI document, the reference page with its viewer, and the usage
// page. wrangler runs it before it serves or deploys.

import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join, relative } from "node:path";
import type { OpenApiDocument } from "../src/openapi/document.ts";
import { DAYS_KEPT } from "../src/rate-limit/protocol.ts";
import { type Define, newCommand } from "./lib/command.ts";

const root = join(import.meta.dirname, "..");
const source = join(root, "src/site");
const target = join(root, "dist");

const TEMPORARY_SUFFIX = ".tmp";

const define: Define = () =>
  newCommand(
    "npm run build",
    "Writes the static assets into dist/: the OpenAPI document, the reference page and the usage page. npm start and npm run deploy do it too.",
    "",
    "--help",
  ).action(buildSite);

export default define;

/** Writes all files. Unchanged files are not touched, because wrangler watches them. */
async function buildSite(): Promise<void> {
  const { build } = await import("esbuild");
  const { openApiDocument } = await import("../src/openapi/document.ts");
  const { fill, fillGuide } = await import("../src/openapi/guide.ts");
  const require = createRequire(import.meta.url);
  const viewerFolder = dirname(require.resolve("swagger-ui-dist/package.json"));
  // The path contains the version, so browsers may cache it forever.
  const viewer = `viewer-${require("swagger-ui-dist/package.json").version}`;
  const guide = fillGuide(await readFile(join(root, "src/openapi/guide.md"), "utf8"));
  const document = openApiDocument(guide);
  const { title, version, summary } = document.info;
  const operations = operationsAsHtml(document);
  const facts = { title, version, summary, viewer, operations, ...(await guideAsHtml(guide)) };
  const values = { ...facts, daysKept: `${DAYS_KEPT}` };
  const page = async (name: string) => fill(await readFile(join(source, name), "utf8"), values);
  const written = new Set<string>();
  const write = async (name: string, contents: string | Uint8Array) => {
    written.add(name);
    await writeIfChanged(join(target, name), contents);
  };

  await write("openapi.json", JSON.stringify(document, null, 2));
  await write("index.html", await page("reference/index.html"));
  await write("usage.html", await page("usage/usage.html"));
  for (const name of ["_headers", "paw.svg"]) await write(name, await readFile(join(source, name)));
  for (const name of ["swagger-ui.css", "swagger-ui-bundle.js"]) {
    await write(`${viewer}/${name}`, await readFile(join(viewerFolder, name)));
  }
  const scripts = ["reference/reference.ts", "usage/usage.ts"];
  const styles = ["style.css", "reference/reference.css", "usage/usage.css"];
  const { outputFiles } = await build({
    entryPoints: [...scripts, ...styles].map((name) => join(source, name)),
    outdir: target,
    entryNames: "[name]",
    bundle: true,
    format: "esm",
    target: "es2022",
    minify: true,
    write: false,
  });
  for (const { path, contents } of outputFiles) await write(relative(target, path), contents);
  await removeStaleFiles(written);
}

/** The guide as HTML, and its table of contents as list items. */
async function guideAsHtml(guide: string): Promise<{ guide: string; contents: string }> {
  const { Marked } = await import("marked");
  const entries: string[] = [];
  const marked = new Marked({
    renderer: {
      heading({ tokens, depth, text }) {
        const id = text.toLowerCase().replace(/[^a-z0-9]+/g, "-");
        const html = this.parser.parseInline(tokens);
        entries.push(`<li><a href="#${id}">${html}</a></li>`);
        return `<h${depth} id="${id}">${html}</h${depth}>\n`;
      },
    },
  });
  // Wide blocks scroll within themselves on a phone, also with the keyboard.
  const html = marked
    .parse(guide, { async: false })
    .replaceAll("<pre>", '<pre tabindex="0">')
    .replaceAll("<table>", '<div class="wide" role="group" aria-label="Table" tabindex="0"><table>')
    .replaceAll("</table>", "</table></div>");
  return { guide: html, contents: entries.join("\n          ") };
}

/** The operations as list items, for readers without the viewer. */
function operationsAsHtml({ paths }: OpenApiDocument): string {
  return Object.entries(paths)
    .flatMap(([path, operations]) =>
      Object.entries(operations).map(
        ([method, { summary }]) => `<li><code>${method.toUpperCase()} /v1${path}</code> ${summary}</li>`,
      ),
    )
    .join("\n              ");
}

/** Writes a file atomically, because a server may read it at any time. */
async function writeIfChanged(file: string, contents: string | Uint8Array): Promise<void> {
  const bytes = Buffer.from(contents);
  const current = await readFile(file).catch(() => undefined);
  if (current && bytes.equals(current)) return;
  await mkdir(dirname(file), { recursive: true });
  const temporary = `${file}.${process.pid}${TEMPORARY_SUFFIX}`;
  await writeFile(temporary, bytes);
  await rename(temporary, file);
}

/** Removes the files of earlier builds, but not the temporary files of a build that is running. */
async function removeStaleFiles(written: Set<string>): Promise<void> {
  for (const entry of await readdir(target, { recursive: true, withFileTypes: true })) {
    const file = join(entry.parentPath, entry.name);
    if (!entry.isFile() || written.has(relative(target, file))) continue;
    const { mtimeMs } = await stat(file).catch(() => ({ mtimeMs: 0 }));
    const isInUse = entry.name.endsWith(TEMPORARY_SUFFIX) && Date.now() - mtimeMs < 60_000;
    if (!isInUse) await rm(file, { force: true });
  }
}
