// The files, commands and test names in the documents exist.

import { existsSync, globSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";

const root = join(import.meta.dirname, "../..");
const read = (file: string) => readFileSync(join(root, file), "utf8");

/** The cells of all table rows of a document. */
function rows(document: string): string[][] {
  const lines = document.split("\n").filter((line) => line.startsWith("| ") && !line.startsWith("| -"));
  return lines.map((line) =>
    line
      .split("|")
      .map((cell) => cell.trim())
      .slice(1, -1),
  );
}

/** The source of a test file, or of all test files in a folder. */
function testsIn(name: string): string {
  const path = join(root, "test", name);
  const files = name.endsWith(".ts") ? [path] : globSync(join(path, "*.test.ts"));
  if (files.length === 0) throw new Error(`no tests in ${name}`);
  return files.map((file) => readFileSync(file, "utf8")).join("\n");
}

const THREATS = rows(read("docs/security.md")).filter(([threat]) => threat !== "Threat");

it("docs/security.md lists threats", () => {
  expect(THREATS.length).toBeGreaterThan(20);
});

describe.each(THREATS)("%s", (_threat, _defence, tests = "") => {
  it("names tests that exist", () => {
    const names = [...tests.matchAll(/`([^`]+)`/g)].map(([, name = ""]) => name);
    expect(names.length).toBeGreaterThan(0);
    const { scripts } = JSON.parse(read("package.json"));
    for (const command of names.filter((name) => name.startsWith("npm run "))) {
      expect(scripts).toHaveProperty(command.replace("npm run ", ""));
    }
    const text = names
      .filter((name) => !name.startsWith("npm run "))
      .map(testsIn)
      .join("\n");
    for (const [, part = ""] of tests.matchAll(/"([^"]+)"/g))
      expect(text).toContain(part.replace(/ ?…$/, ""));
  });
});

const DOCUMENTS = [
  "README.md",
  "DESIGN.md",
  "SECURITY.md",
  "CHANGELOG.md",
  "CONTRIBUTING.md",
  ...globSync("docs/*.md", { cwd: root }),
];

it.each(DOCUMENTS)("%s names files and commands that exist", (document) => {
  const text = read(document);
  const files = [...text.matchAll(/(?<![\w./-])(?:test|src|scripts|bench|docs)\/[\w./-]*[\w/]/g)].map(
    ([file]) => file,
  );
  for (const file of files) expect(existsSync(join(root, file)), file).toBe(true);
  const { scripts } = JSON.parse(read("package.json"));
  for (const [, script = ""] of text.matchAll(/npm run (?:--silent )?(\w[\w:-]*)/g))
    expect(scripts).toHaveProperty([script]);
  // The patterns match something.
  expect(text).toMatch(/npm (run|test|start)/);
});

/** The anchors that GitHub gives the headings of a document. */
function anchors(text: string): string[] {
  const headings = [...text.matchAll(/^#+ (.*)$/gm)].map(([, heading = ""]) => heading.toLowerCase());
  return headings.map((heading) => heading.replace(/[^\p{L}\p{N} _-]/gu, "").replaceAll(" ", "-"));
}

it.each(DOCUMENTS)("%s links to files and headings that exist", (document) => {
  for (const [, link = ""] of read(document).matchAll(/\]\((?!https?:)([^)]+)\)/g)) {
    const [path = "", anchor] = link.split("#");
    const target = path === "" ? document : join(dirname(document), path);
    expect(existsSync(join(root, target)), link).toBe(true);
    if (anchor !== undefined) expect(anchors(read(target)), link).toContain(anchor);
  }
});
