// The files and the archive of the client package, client/. The build of the service needs both, so that it can serve its client, and
// therefore nothing here needs a development dependency.

import { execFileSync } from "node:child_process";
import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build } from "esbuild";
import { isolatedDeclaration } from "oxc-transform";

const PACKAGE = "client";

/** Builds ECMAScript modules in the folder `dist` of a package, and the same as CommonJS in `dist/cjs`, each with its declarations. */
export async function buildClient(folder = PACKAGE): Promise<void> {
  const [source, dist] = [join(folder, "src"), join(folder, "dist")];
  await rm(dist, { recursive: true, force: true });
  const commonJs = join(dist, "cjs");
  await mkdir(commonJs, { recursive: true });
  const entryPoints = [join(source, "index.ts")];
  // Small: classes that programs see have their names as a static property. Debuggers show the source. Node prints the line that threw
  // an uncaught error.
  const small = { minify: true, sourcemap: true, lineLimit: 200 };
  const options = { entryPoints, bundle: true, target: "es2022", ...small };
  await build({ ...options, format: "esm", outfile: join(dist, "index.js") });
  await build({ ...options, format: "cjs", outfile: join(commonJs, "index.js") });
  for (const name of await readdir(source)) {
    const declarations = await declarationsOf(source, name);
    for (const folder of [dist, commonJs])
      await writeFile(join(folder, name.replace(/ts$/, "d.ts")), declarations);
  }
  // In the package's own package.json, "type" is "module".
  await writeFile(join(commonJs, "package.json"), '{ "type": "commonjs" }\n');
}

async function declarationsOf(folder: string, name: string): Promise<string> {
  const text = await readFile(join(folder, name), "utf8");
  const { code, errors } = await isolatedDeclaration(name, text);
  if (errors.length > 0) throw new Error(`${name}: ${errors.map(({ message }) => message).join("; ")}`);
  // The names of the built files.
  return code.replace(/(?<=(from |import\()"\.\/[\w-]+)\.ts(?=")/g, ".js");
}

/** Packs the package as npm publishes it, in a folder of its own, because several builds may run at once. The same files give the same bytes. */
export async function packClient(): Promise<{ name: string; archive: Buffer }> {
  const folder = await mkdtemp(join(tmpdir(), "petstore-client-"));
  try {
    for (const name of ["package.json", "README.md", "CHANGELOG.md", "LICENSE", "src"])
      await cp(join(PACKAGE, name), join(folder, name), { recursive: true });
    await buildClient(folder);
    // The script that npm would run before it packs is this one.
    const options = { cwd: folder, stdio: "pipe", shell: process.platform === "win32" } as const;
    execFileSync("npm", ["pack", "--ignore-scripts", "--loglevel=error"], options);
    const name = (await readdir(folder)).find((each) => each.endsWith(".tgz")) ?? "";
    return { name, archive: await readFile(join(folder, name)) };
  } finally {
    await rm(folder, { recursive: true });
  }
}
