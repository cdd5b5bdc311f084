// The files, commands, test names and headers in the documents and workflows exist, and the README has the plans of the guide.

import { existsSync, globSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, it } from "vitest";
import { choose } from "../../scripts/lib/command.ts";
import { Io } from "../../scripts/lib/io.ts";
import { petstore } from "../../scripts/petstore.ts";
import { HEADER } from "../../src/http/header-names.ts";
import { fillGuide } from "../../src/openapi/guide.ts";

const read = (file: string) => readFileSync(file, "utf8");

/** The source of a test file, or of all test files in a folder. */
function testsIn(name: string): string {
  const path = join("test", name);
  const files = name.endsWith(".ts") ? [path] : globSync(join(path, "*.test.ts"));
  if (files.length === 0) throw new Error(`no tests in ${name}`);
  return files.map(read).join("\n");
}

const { scripts } = JSON.parse(read("package.json"));
const THREATS = [...read("docs/security.md").matchAll(/^\| (\*\*.*) \| (.*) \| (.*) \|$/gm)].map((row) =>
  row.slice(1),
);

it("docs/security.md lists threats", () => {
  expect(THREATS.length).toBeGreaterThan(20);
});

it.each(THREATS)("%s: names tests that exist", (_threat, _defence, tests = "") => {
  const names = [...tests.matchAll(/`([^`]+)`/g)].map(([, name = ""]) => name);
  const files = names.filter((name) => !name.startsWith("npm run "));
  expect(names.length).toBeGreaterThan(0);
  const text = files.map(testsIn).join("\n");
  for (const [, part = ""] of tests.matchAll(/"([^"]+)"/g)) expect(text).toContain(part.replace(/ ?…$/, ""));
});

const TOP_LEVEL = ["README.md", "DESIGN.md", "SECURITY.md", "CHANGELOG.md", "CONTRIBUTING.md"];
const DOCUMENTS = [...TOP_LEVEL, ...globSync("{client/*,docs/**/*,src/limits/*}.md")];

const WORKFLOWS = globSync(".github/workflows/*.yml");

it.each([...DOCUMENTS, ...WORKFLOWS])("%s names files and commands that exist", async (document) => {
  const text = read(document);
  const files = text.matchAll(/(?<![\w./-])(?:test|src|scripts|bench|docs|client|\.ci)\/[\w./-]*[\w/]/g);
  for (const [file] of files) expect(existsSync(file), file).toBe(true);
  for (const [, script = ""] of text.matchAll(/npm run (\w[\w:-]*)/g))
    expect(scripts).toHaveProperty([script]);
  for (const [, words = ""] of text.matchAll(/\.\/petstore((?: [\w"$…'-]+)*)/g))
    expect(await unknownWords(words)).toEqual([]);
});

it("lines to paste, which messages have, name commands and options that exist", async () => {
  const calls = globSync("scripts/**/*.ts").flatMap((file) => [
    ...read(file).matchAll(/petstoreLine\(([^;]*?)\)[`},;)\s]/g),
  ]);
  expect(calls.length).toBeGreaterThan(20);
  for (const [, words = ""] of calls) {
    // What is not written out, such as an ID, is a value.
    const literal = [...words.matchAll(/["`]([^"`$]+)/g)].map(([, text = ""]) => text);
    expect([words, await unknownWords(literal.join(" "))]).toEqual([words, []]);
  }
});

/** The words of a command line that name a command or an option that does not exist. */
async function unknownWords(typed: string): Promise<string[]> {
  const { program, args, line } = await choose(petstore, "", "", typed.trim().split(/ +/));
  const known = program.build(line, "does something", new Io(process)).options.map(({ long }) => long);
  return args.filter((word, index) => {
    const isCommand = index === 0 && program.commands !== undefined && /^[a-z]+$/.test(word);
    return isCommand || (/^--\w/.test(word) && word !== "--help" && !known.includes(word));
  });
}

/** The anchors that GitHub gives the headings of a document. */
function anchors(text: string): string[] {
  const headings = [...text.matchAll(/^#+ (.*)$/gm)].map(([, heading = ""]) => heading.toLowerCase());
  return headings.map((heading) => heading.replace(/[^\p{L}\p{N} _-]/gu, "").replaceAll(" ", "-"));
}

it.each(DOCUMENTS)("%s links to files and headings that exist", (document) => {
  for (const [, link = ""] of read(document).matchAll(/\]\((?!https?:)([^)]+)\)/g)) {
    const [path = "", anchor] = link.split("#");
    const target = path === "" ? document : join(dirname(document), path);
    expect(existsSync(target), link).toBe(true);
    if (anchor !== undefined) expect(anchors(read(target)), link).toContain(anchor);
  }
});

/** Headers that the service does not define. */
const STANDARD = [
  "Authorization",
  "Content-Encoding",
  "Content-Type",
  "WWW-Authenticate",
  "Strict-Transport-Security",
];
const OF_OTHERS = ["X-Content-Type-Options", "CF-Worker", "CF-Connecting-IP"];

// So a header on which clients rely can't get another name.
it("documents and the guide have the headers of the service by their names", () => {
  const text = [...DOCUMENTS.map(read), fillGuide(read("src/openapi/guide.md"))].join("\n");
  const name = "[A-Z][A-Za-z]*(?:-[A-Z][A-Za-z]*)+";
  const pattern = new RegExp(
    `\`(${name}|RateLimit|Deprecation|Sunset|Prefer)\\b.*?\`|-H "(${name}):|^(${name}): `,
    "gm",
  );
  const named = new Set([...text.matchAll(pattern)].flatMap((names) => names.slice(1).filter(Boolean)));
  const existing = Object.values(HEADER);
  expect([...named]).toEqual(expect.arrayContaining(existing));
  for (const each of named) expect([...existing, ...STANDARD, ...OF_OTHERS]).toContain(each);
});

it("the README has the plans of the guide", () => {
  expect(read("README.md").replaceAll("\n", " ")).toContain(fillGuide("{{plans}}").replaceAll("\n", " "));
});
