// The files of the built client package: ECMAScript modules in dist/, the same as CommonJS in dist/cjs/, and declarations beside both.
// The service's build packs them too, where no development dependency is installed, so this imports neither TypeScript nor the
// generator of client/src/schema.ts.

import { execFileSync } from "node:child_process";
import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join, relative } from "node:path";
import { type BuildOptions, build } from "esbuild";
import { isolatedDeclaration } from "oxc-transform";

const FOLDER = "client";
const SOURCE = join(FOLDER, "src");
const DIST = join(FOLDER, "dist");

/** Writes the folder `dist` of the package, without the files of earlier builds. */
export async function buildClient(folder = FOLDER): Promise<void> {
  const files = await clientFiles();
  await rm(join(folder, "dist"), { recursive: true, force: true });
  for (const [name, contents] of files) {
    await mkdir(dirname(join(folder, name)), { recursive: true });
    await writeFile(join(folder, name), contents);
  }
}

/**
 * Packs the package as npm publishes it, in a folder of its own, because several builds may run at once. The same files give the same
 * bytes.
 */
export async function packClient(): Promise<{ name: string; archive: Buffer }> {
  const folder = await mkdtemp(join(tmpdir(), "petstore-client-"));
  try {
    for (const name of ["package.json", "README.md", "CHANGELOG.md", "LICENSE"])
      await cp(join(FOLDER, name), join(folder, name));
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

/** The built files, by their path in the package, such as `dist/index.js`. */
async function clientFiles(): Promise<Map<string, string | Uint8Array>> {
  const modules = await bundle({ format: "esm", outdir: DIST });
  const commonJs = await bundle({ format: "cjs", outdir: join(DIST, "cjs") });
  const files = new Map<string, string | Uint8Array>([...modules, ...commonJs]);
  // In the package's own package.json, "type" is "module".
  files.set("dist/cjs/package.json", '{ "type": "commonjs" }\n');
  for (const file of (await readdir(SOURCE)).sort()) {
    const declarations = await declarationsOf(join(SOURCE, file));
    const name = `${basename(file, ".ts")}.d.ts`;
    for (const folder of ["dist", "dist/cjs"]) files.set(`${folder}/${name}`, declarations);
  }
  return files;
}

/** Readable code, because people step through it, and an uncaught error prints the line that threw it. Their bundlers make it small. */
async function bundle(options: BuildOptions): Promise<[name: string, contents: Uint8Array][]> {
  const { outputFiles = [] } = await build({
    entryPoints: [join(SOURCE, "index.ts"), join(SOURCE, "testing.ts")],
    bundle: true,
    target: "es2022",
    sourcemap: true,
    write: false,
    // Whatever the compiler is told, the same sources give the same files.
    tsconfigRaw: { compilerOptions: { alwaysStrict: true } },
    ...options,
  });
  return outputFiles.map(({ path, contents }) => [relative(FOLDER, path).replaceAll("\\", "/"), contents]);
}

async function declarationsOf(file: string): Promise<string> {
  const { code, errors } = await isolatedDeclaration(file, await readFile(file, "utf8"));
  if (errors.length > 0) throw new Error(errors.map(({ message }) => `${file}: ${message}`).join("\n"));
  // They import each other by the names of the sources.
  return code.replace(/(?<=(from |import\()"\.\/[\w-]+)\.ts(?=")/g, ".js");
}
