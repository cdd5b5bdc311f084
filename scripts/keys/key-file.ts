// A file of new keys, for `create --from`: CSV with a header. All its lines are checked before the first key is made. What could be meant
// in two ways is refused, such as 1.000 or 31.12.2027.

import { readFile } from "node:fs/promises";
import { InvalidArgumentError } from "commander";
import { ACCESSES } from "../../src/keys/key.ts";
import { forEachWindow, PLANS, WINDOW_NAMES, type WindowName } from "../../src/keys/plans.ts";
import { withoutSecrets } from "../../src/keys/secret.ts";
import type { NewKey } from "../../src/operators/changes.ts";
import { foldName } from "../../src/operators/names.ts";
import { type CsvLine, parseCsv } from "../lib/csv.ts";
import { messageOf, pathError, UsageError } from "../lib/io.ts";
import { agreedLimits, expiry, keyName, LIMIT, MAX_COUNT, NOTE, REF, smallerLimit } from "./options.ts";
import { clipped, counted } from "./text.ts";

const limitColumn = <Name extends WindowName>(name: Name): `per_${Name}` => `per_${name}`;
const LIMIT_COLUMNS = WINDOW_NAMES.map(limitColumn);

/** What reads a field, by the name of its column. */
const COLUMNS = {
  name: keyName,
  plan: oneOf(PLANS),
  ...(Object.fromEntries(LIMIT_COLUMNS.map((name) => [name, LIMIT])) as Record<
    `per_${WindowName}`,
    typeof LIMIT
  >),
  access: oneOf(ACCESSES),
  expires: expiry,
  ref: REF.parse,
  note: NOTE.parse,
};
const REQUIRED = ["name", "plan"];
const NAMES = Object.keys(COLUMNS);

export const COLUMNS_TEXT = `${REQUIRED.join(", ")}; optional ${NAMES.slice(REQUIRED.length).join(", ")}`;

type Row = Partial<Record<keyof typeof COLUMNS, string>>;

/** A key to make, and the number of its line. Of columns that the file lacks, it `says` nothing: a key is not compared with it. */
export type Line = NewKey & { number: number; says: string[] };

/** The keys of a file, and its problems, each with its line. Throws UsageError if the file can't be read as a table. */
export async function readKeyFile(path: string): Promise<{ lines: Line[]; problems: string[] }> {
  const { lines: read, separator } = await readTable(path);
  const separated = `separated by ${separator}`;
  const [header, ...rest] = read;
  if (header === undefined)
    throw new UsageError(`${path} is empty: its first line must name the columns: ${COLUMNS_TEXT}`);
  const problems: string[] = [];
  const report = (number: number, problem: string) => void problems.push(`${path}:${number}: ${problem}`);
  const columns = "problem" in header ? [] : columnsOf(header.fields);
  const ofHeader = "problem" in header ? [header.problem] : headerProblems(columns);
  for (const problem of ofHeader) report(header.number, `${problem}; its fields are ${separated}`);
  if (problems.length > 0) return { lines: [], problems };
  if (rest.length === 0) throw new UsageError(`${path} has no keys after its header`);
  if (rest.length > MAX_COUNT)
    throw new UsageError(`${path} has ${rest.length} keys: one file can have ${MAX_COUNT}`);
  const lines: Line[] = [];
  const numbers = new Map<string, number>();
  for (const line of rest) {
    const { number } = line;
    const row = readFields(line, columns, separated);
    if (typeof row === "string") {
      report(number, row);
      continue;
    }
    const newKey = readRow(row, (problem) => report(number, problem));
    const folded = foldName(newKey.name);
    const earlier = numbers.get(folded);
    if (earlier === undefined) numbers.set(folded, number);
    else if (folded !== "") report(number, `line ${earlier} has the same name, compared without case`);
    lines.push({ ...newKey, number, says: columns });
  }
  return { lines, problems };
}

async function readTable(path: string) {
  const file = await readFile(path).catch((error) => {
    throw pathError(path, error);
  });
  try {
    return parseCsv(file);
  } catch {
    throw new UsageError(`${path} is not UTF-8: save it as "CSV UTF-8"`);
  }
}

/** The names of columns, such as per_minute of "Per minute", without empty ones at the end. */
function columnsOf(fields: string[]): string[] {
  const names = fields.map((field) => field.toLowerCase().replace(/[\s-]+/g, "_"));
  return names.slice(0, names.findLastIndex((name) => name !== "") + 1);
}

/** What is wrong with the names of columns. One without a name is for empty fields, which spreadsheets add. */
function headerProblems(columns: string[]): string[] {
  const unknown = columns.flatMap((name, index) =>
    name === "" || NAMES.includes(name)
      ? []
      : [`column ${index + 1}, ${quoted(name)}, is unknown: leave it out`],
  );
  const twice = NAMES.filter((name) => columns.indexOf(name) !== columns.lastIndexOf(name));
  const missing = REQUIRED.filter((name) => !columns.includes(name));
  return [
    ...unknown,
    ...twice.map((name) => `the column ${name} is there twice`),
    ...missing.map((name) => `the column ${name} is missing`),
  ];
}

/** The fields of a line by column, or what is wrong with it. */
function readFields(line: CsvLine, columns: string[], separated: string): Row | string {
  if ("problem" in line) return line.problem;
  const { fields } = line;
  if (fields.length < columns.length || fields.slice(columns.length).some(Boolean))
    return `it has ${counted(fields.length, "field")}, and the header ${columns.length}, ${separated}`;
  const unnamed = columns.findIndex((name, index) => name === "" && fields[index]);
  if (unnamed >= 0) return `field ${unnamed + 1} has a value, and its column no name`;
  return Object.fromEntries(columns.map((name, index) => [name, fields[index]]));
}

/** Reports each problem. Without one, the result is complete. An empty field is as if there were no such column. */
function readRow(row: Row, report: (problem: string) => void): NewKey {
  let isWrong = false;
  const attempt = <Value>(label: string, read: () => Value) => {
    try {
      return read();
    } catch (error) {
      isWrong = true;
      report(`${label}${messageOf(error)}`);
      return undefined;
    }
  };
  const read = <Value>(column: keyof Row, parse: (text: string) => Value) => {
    const text = row[column] ?? "";
    if (text === "" && !REQUIRED.includes(column)) return undefined;
    return attempt(`${column} ${quoted(text)}: `, () => parse(text));
  };
  read("name", COLUMNS.name);
  const plan = read("plan", COLUMNS.plan) ?? "free";
  const given = forEachWindow((name) => read(limitColumn(name), LIMIT));
  const access = read("access", COLUMNS.access) ?? "write";
  const expiresAtMs = read("expires", COLUMNS.expires) ?? null;
  const ref = read("ref", COLUMNS.ref) ?? null;
  const note = read("note", COLUMNS.note) ?? null;
  const limits = isWrong ? undefined : attempt("", () => agreedLimits(plan, given, LIMIT_COLUMNS));
  const problem = limits && smallerLimit(limits);
  if (problem) report(problem);
  return { name: row.name ?? "", plan, access, expiresAtMs, ref, note, ...(limits && { limits }) };
}

/** Parses one of some words, in any case. */
function oneOf<Word extends string>(words: readonly Word[]) {
  return (text: string): Word => {
    const found = words.find((word) => word === text.toLowerCase());
    if (found !== undefined) return found;
    throw new InvalidArgumentError(`Allowed choices are ${words.join(", ")}.`);
  };
}

function quoted(text: string): string {
  return `"${clipped(withoutSecrets(text), 40)}"`;
}
