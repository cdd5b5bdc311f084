// The files and the archive of the client package, client/. The build of the service needs both, so that it can serve its client, and
// therefore nothing here needs a development dependency.

import { execFileSync } from "node:child_process";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build } from "esbuild";
import { isolatedDeclaration } from "oxc-transform";

const SOURCE = "client/src";
const DIST = "client/dist";

/** Builds ECMAScript modules in client/dist, and the same as CommonJS in client/dist/cjs, each with its declarations. */
export async function buildClient(): Promise<void> {
  await rm(DIST, { recursive: true, force: true });
  const commonJs = join(DIST, "cjs");
  await mkdir(commonJs, { recursive: true });
  const entryPoints = [join(SOURCE, "index.ts")];
  // Small: classes that programs see have their names as a static property. Debuggers show the source. Node prints the line that threw
  // an uncaught error.
  const small = { minify: true, sourcemap: true, lineLimit: 200 };
  const options = { entryPoints, bundle: true, target: "es2022", ...small };
  await build({ ...options, format: "esm", outfile: join(DIST, "index.js") });
  await build({ ...options, format: "cjs", outfile: join(commonJs, "index.js") });
  for (const name of await readdir(SOURCE)) {
    const declarations = await declarationsOf(name);
    for (const folder of [DIST, commonJs])
      await writeFile(join(folder, name.replace(/ts$/, "d.ts")), declarations);
  }
  // In the package's own package.json, "type" is "module".
  await writeFile(join(commonJs, "package.json"), '{ "type": "commonjs" }\n');
}

async function declarationsOf(name: string): Promise<string> {
  const source = await readFile(join(SOURCE, name), "utf8");
  const { code, errors } = await isolatedDeclaration(name, source);
  if (errors.length > 0) throw new Error(`${name}: ${errors.map(({ message }) => message).join("; ")}`);
  // The names of the built files.
  return code.replace(/(?<=(from |import\()"\.\/[\w-]+)\.ts(?=")/g, ".js");
}

/** Packs what has been built as npm publishes it. The same files give the same bytes. */
export async function packClient(): Promise<{ name: string; archive: Buffer }> {
  const folder = await mkdtemp(join(tmpdir(), "petstore-client-"));
  try {
    // The script that npm would run before is the build itself.
    execFileSync(
      "npm",
      ["pack", "./client", "--ignore-scripts", "--loglevel=error", "--pack-destination", folder],
      {
        stdio: "pipe",
        shell: process.platform === "win32",
      },
    );
    const [name = ""] = await readdir(folder);
    return { name, archive: await readFile(join(folder, name)) };
  } finally {
    await rm(folder, { recursive: true });
  }
}
