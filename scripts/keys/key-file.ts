// A file of new keys, for `create --from`: CSV with a header. All its lines are checked before the first key is made.

import { readFile } from "node:fs/promises";
import { PLANS, PLANS_WITH_OWN_LIMITS, type Plan } from "../../src/keys/plans.ts";
import type { NewKey } from "../../src/operators/admin.ts";
import { parseCsv } from "../lib/csv.ts";
import { messageOf, UsageError } from "../lib/io.ts";
import { expiry, keyName, LIMITS, MAX_COUNT } from "./options.ts";

const REQUIRED = ["name", "plan"] as const;
const OPTIONAL = ["per_minute", "per_day", "expires"] as const;
const COLUMNS: readonly string[] = [...REQUIRED, ...OPTIONAL];

export const COLUMNS_TEXT = `${REQUIRED.join(", ")}; optional ${OPTIONAL.join(", ")}`;

type Row = Partial<Record<(typeof REQUIRED | typeof OPTIONAL)[number], string>>;

/** A key to make, and the number of its line. */
export type Line = NewKey & { number: number };

/** The keys of a file, and its problems, each with its line. Throws UsageError if the file can't be read as a table. */
export async function readKeyFile(path: string): Promise<{ lines: Line[]; problems: string[] }> {
  const [header, ...rest] = await readTable(path);
  const columns = header === undefined || "problem" in header ? [] : header.fields;
  const isTable =
    REQUIRED.every((name) => columns.includes(name)) &&
    columns.every((name, index) => COLUMNS.includes(name) && columns.indexOf(name) === index);
  if (!isTable) throw new UsageError(`the first line of ${path} must name the columns: ${COLUMNS_TEXT}`);
  if (rest.length === 0 || rest.length > MAX_COUNT)
    throw new UsageError(`${path} must have 1 to ${MAX_COUNT} keys, and has ${rest.length}`);
  const problems: string[] = [];
  const lines: Line[] = [];
  const numbers = new Map<string, number>();
  for (const { number, ...line } of rest) {
    const report = (problem: string) => void problems.push(`${path}:${number}: ${problem}`);
    if ("problem" in line) report(line.problem);
    else if (line.fields.length !== columns.length)
      report(`it has ${line.fields.length} fields, and the header ${columns.length}`);
    else {
      const row = Object.fromEntries(columns.map((name, index) => [name, line.fields[index]]));
      const newKey = readRow(row, report);
      const earlier = numbers.get(newKey.name);
      if (earlier === undefined) numbers.set(newKey.name, number);
      else report(`line ${earlier} has the same name`);
      lines.push({ ...newKey, number });
    }
  }
  return { lines, problems };
}

async function readTable(path: string) {
  const file = await readFile(path).catch((error) => {
    throw new UsageError(`can't read ${path}: ${messageOf(error)}`);
  });
  try {
    return parseCsv(file);
  } catch {
    throw new UsageError(`${path} is not UTF-8: save it as "CSV UTF-8"`);
  }
}

/** Reports each problem. Without one, the result is complete. */
function readRow({ name = "", plan = "", ...row }: Row, report: (problem: string) => void): NewKey {
  const read = <Value>(column: string, text: string, parse: (text: string) => Value) => {
    try {
      return parse(text);
    } catch (error) {
      report(`${column}: ${messageOf(error)}`);
      return undefined;
    }
  };
  const readIfSet = <Value>(column: keyof typeof row, parse: (text: string) => Value) =>
    row[column] ? read(column, row[column], parse) : undefined;
  read("name", name, keyName);
  if (/\p{Cc}/u.test(name)) report("name: It must not contain control characters.");
  const minute = readIfSet("per_minute", LIMITS.perMinute.parse);
  const day = readIfSet("per_day", LIMITS.perDay.parse);
  const expiresAtMs = readIfSet("expires", (text) => expiry(text)) ?? null;
  const isOwn = PLANS_WITH_OWN_LIMITS.some((each) => each === plan);
  if (!PLANS.some((each) => each === plan)) report(`plan: Allowed choices are ${PLANS.join(", ")}.`);
  else if (!isOwn && (row.per_minute || row.per_day))
    report(`${plan} has fixed limits: leave per_minute and per_day empty.`);
  else if (isOwn && !(row.per_minute && row.per_day)) report(`${plan} needs per_minute and per_day.`);
  if (minute === undefined || day === undefined) return { name, plan: plan as Plan, expiresAtMs };
  if (day < minute) report("per_day is smaller than per_minute.");
  return { name, plan: plan as Plan, expiresAtMs, limits: { minute, day } };
}
