// Imports between the folders of src/ point down this list (DESIGN.md, Layout), types included. Circles between files are biome's
// rule `noImportCycles`.

import { globSync, readFileSync } from "node:fs";
import { posix } from "node:path";
import ts from "typescript";
import { expect, it } from "vitest";

const ORDER = [
  "src/*.ts",
  "src/openapi/**",
  "src/site/**",
  "src/operators/**",
  "src/pets/**",
  "src/keys/usage/usage-route.ts",
  "src/keys/{identify,rate-limit,require-key}.ts",
  "src/keys/usage/usage-body.ts",
  "src/keys/*.ts",
  "src/http/**",
  "src/d1/**",
  "src/limits/isolate/**",
  "src/limits/object/**",
  "src/limits/**",
  "src/lib/**",
];

const rankOf = (file: string) => ORDER.findIndex((pattern) => posix.matchesGlob(file, pattern));

it("imports point down the list of folders", () => {
  const wrong = globSync("src/**/*.ts").flatMap((file) =>
    ts
      .preProcessFile(readFileSync(file, "utf8"))
      .importedFiles.filter(({ fileName }) => fileName.startsWith("."))
      .map(({ fileName }) => posix.join(posix.dirname(file), fileName))
      .filter((target) => rankOf(target) < rankOf(file))
      .map((target) => `${file} imports ${target}`),
  );
  expect(wrong).toEqual([]);
});
