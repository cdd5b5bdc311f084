// A file of new keys, for `create --from`: CSV with a header. All its lines are checked before the first key is made. What could be meant
// in two ways is refused, such as 1.000 or 31.12.2027.

import { readFile } from "node:fs/promises";
import { ACCESSES } from "../../src/keys/key.ts";
import {
  forEachWindow,
  type Limits,
  PLANS,
  PLANS_WITH_OWN_LIMITS,
  type Plan,
  WINDOW_NAMES,
  type WindowName,
} from "../../src/keys/plans.ts";
import { withoutSecrets } from "../../src/keys/secret.ts";
import type { NewKey } from "../../src/operators/changes.ts";
import { foldName } from "../../src/operators/names.ts";
import { type CsvLine, parseCsv } from "../lib/csv.ts";
import { messageOf, UsageError } from "../lib/io.ts";
import { pathError } from "../lib/path-error.ts";
import { expiry, keyName, LIMITS, limitName, MAX_COUNT, NOTE, REF, smallerLimit } from "./options.ts";
import { counted, listOf, printable } from "./text.ts";

const REQUIRED = ["name", "plan"] as const;
const limitColumn = <Name extends WindowName>(name: Name): `per_${Name}` => `per_${name}`;
const LIMIT_COLUMNS = WINDOW_NAMES.map(limitColumn);
const OPTIONAL = [...LIMIT_COLUMNS, "access", "expires", "ref", "note"] as const;
const COLUMNS: readonly string[] = [...REQUIRED, ...OPTIONAL];

export const COLUMNS_TEXT = `${REQUIRED.join(", ")}; optional ${OPTIONAL.join(", ")}`;

type Row = Partial<Record<(typeof REQUIRED | typeof OPTIONAL)[number], string>>;

/** Of these, a file can say nothing: then a key is not compared with it. */
const SAID = ["access", "expires", "ref", "note"] as const;

/** A key to make, the number of its line, and the columns of SAID that the file has. */
export type Line = NewKey & { number: number; says: (typeof SAID)[number][] };

/** The keys of a file, and its problems, each with its line. Throws UsageError if the file can't be read as a table. */
export async function readKeyFile(path: string): Promise<{ lines: Line[]; problems: string[] }> {
  const { lines: read, separator } = await readTable(path);
  const [header, ...rest] = read;
  if (header === undefined)
    throw new UsageError(`${path} is empty: its first line must name the columns: ${COLUMNS_TEXT}`);
  const problems: string[] = [];
  const report = (number: number, problem: string) => void problems.push(`${path}:${number}: ${problem}`);
  const columns = "problem" in header ? [] : columnsOf(header.fields);
  const separated = separator ? `separated by ${separator}` : "not separated by commas, semicolons or tabs";
  if ("problem" in header) report(header.number, header.problem);
  else
    for (const problem of headerProblems(columns))
      report(header.number, `${problem}; its fields are ${separated}`);
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
    lines.push({ ...newKey, number, says: SAID.filter((name) => row[name] !== undefined) });
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
  const names = fields.map((field) =>
    field
      .trim()
      .toLowerCase()
      .replace(/[\s-]+/g, "_"),
  );
  return names.slice(0, names.findLastIndex((name) => name !== "") + 1);
}

/** What is wrong with the names of columns. One without a name is for empty fields, which spreadsheets add. */
function headerProblems(columns: string[]): string[] {
  const named = columns.filter((name) => name !== "");
  const unknown = columns.flatMap((name, index) =>
    name === "" || COLUMNS.includes(name)
      ? []
      : [`column ${index + 1}, ${quoted(name)}, is unknown: leave it out`],
  );
  const twice = COLUMNS.filter((name) => named.indexOf(name) !== named.lastIndexOf(name));
  const missing = REQUIRED.filter((name) => !named.includes(name));
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
  const isSurplus = fields.slice(columns.length).some((field) => field.trim() !== "");
  if (fields.length < columns.length || isSurplus)
    return `it has ${counted(fields.length, "field")}, and the header ${columns.length}, ${separated}`;
  const unnamed = columns.findIndex((name, index) => name === "" && fields[index]?.trim());
  if (unnamed >= 0) return `field ${unnamed + 1} has a value, and its column no name`;
  return Object.fromEntries(columns.map((name, index) => [name, fields[index]?.trim()]));
}

/** Reports each problem. Without one, the result is complete. */
function readRow({ name = "", plan: typed = "", ...row }: Row, report: (problem: string) => void): NewKey {
  const read = <Value>(label: string, text: string, parse: (text: string) => Value) => {
    try {
      return parse(text);
    } catch (error) {
      report(`${label}: ${messageOf(error)}`);
      return undefined;
    }
  };
  const readIfSet = <Value>(column: keyof typeof row, parse: (text: string) => Value) =>
    row[column] ? read(`${column} ${quoted(row[column])}`, row[column], parse) : undefined;
  read("name", name, keyName);
  const plan = typed.toLowerCase();
  const limits = forEachWindow((each) => readIfSet(limitColumn(each), LIMITS[limitName(each)].parse));
  const access = row.access === undefined ? undefined : readAccess(row.access, report);
  const expiresAtMs = readIfSet("expires", expiry) ?? null;
  const ref = readIfSet("ref", REF.parse) ?? null;
  const note = readIfSet("note", NOTE.parse) ?? null;
  const isOwn = PLANS_WITH_OWN_LIMITS.includes(plan);
  if (!PLANS.some((each) => each === plan))
    report(`plan ${quoted(typed)}: Allowed choices are ${PLANS.join(", ")}.`);
  else if (!isOwn && LIMIT_COLUMNS.some((column) => row[column]))
    report(`${plan} has fixed limits: leave ${listOf(LIMIT_COLUMNS)} empty.`);
  else if (isOwn && !LIMIT_COLUMNS.every((column) => row[column]))
    report(`${plan} needs ${listOf(LIMIT_COLUMNS)}.`);
  const newKey = { name, plan: plan as Plan, access, expiresAtMs, ref, note };
  if (!hasAll(limits)) return newKey;
  const problem = smallerLimit(limits);
  if (problem) report(`${limitColumn(problem.longer)} is smaller than ${limitColumn(problem.shorter)}.`);
  return { ...newKey, limits };
}

/** An empty field is `write`. */
function readAccess(typed: string, report: (problem: string) => void) {
  const access = ACCESSES.find((each) => each === (typed.toLowerCase() || "write"));
  if (access === undefined) report(`access ${quoted(typed)}: Allowed choices are ${ACCESSES.join(", ")}.`);
  return access;
}

function hasAll(limits: Record<WindowName, number | undefined>): limits is Limits {
  return WINDOW_NAMES.every((name) => limits[name] !== undefined);
}

function quoted(text: string): string {
  return `"${printable(withoutSecrets(text), 40)}"`;
}
