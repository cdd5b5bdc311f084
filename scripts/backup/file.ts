// The file of a backup: lines, compressed with gzip. The first line is the header. Then follows, for each table, a line with its name and
// a line for each row, which is the JSON array of its values: texts, integers of 64 bits, null, and bytes as hexadecimal digits. The last
// line has the number of rows of each table, and the SHA-256 of all lines before it, which detects damage, but not forgery.

import { createHash } from "node:crypto";
import { accessSync, constants, createReadStream, createWriteStream, lstatSync, rmSync } from "node:fs";
import { link, open, rename, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { isDeepStrictEqual } from "node:util";
import { createGunzip, createGzip } from "node:zlib";
import * as z from "zod/mini";
import { parseInt64 } from "../../src/lib/int64.ts";
import { messageOf, pathError, printable, UsageError } from "../lib/io.ts";
import { parseTime } from "../lib/time.ts";
import { MAX_PAGE_BYTES, MAX_PAGE_ROWS, type Page } from "./tables.ts";

const FORMAT = "petstore backup";
/** Another number for what this version can't read. */
const VERSION = 1;

/** A longer line is not one of a backup. */
const MAX_LINE_LENGTH = 4 * MAX_PAGE_BYTES;

const MAX_NAMES = 1_000;
const text = (pattern: RegExp) => z.string().check(z.regex(pattern));
const LABEL = text(/^(keys|pets)\.\w{1,64}$/);
const files = z.array(text(/^\w{1,100}\.sql$/)).check(z.maxLength(MAX_NAMES));
const columns = z.array(text(/^\w{1,64}$/)).check(z.maxLength(MAX_NAMES));

/** Clocks of two machines differ by less. A later time would hide for how long ids have been assigned since. */
const DAY_MS = 86_400_000;

/** The details of a backup. A file can have anything in their place, so nothing of it is used before it has this form. */
const HEADER = z.object({
  /** When it began: RFC 3339. */
  createdAt: text(/T/).check(z.refine((value) => (parseTime(value) ?? Number.NaN) <= Date.now() + DAY_MS)),
  /** What was backed up, as words of a sentence. */
  source: z.string().check(
    z.maxLength(10_000),
    z.refine((value) => printable(value) === value),
  ),
  /** The highest id that was ever assigned to a pet. */
  highestId: z.string().check(z.refine((value) => (parseInt64(value) ?? -1n) >= 0n)),
  /** The files of the applied migrations. */
  migrations: z.object({ keys: files, pets: files }),
  layout: z.record(LABEL, columns),
});
export type Header = z.infer<typeof HEADER>;

const SUMMARY = z.object({
  rows: z.record(LABEL, z.int()),
  sha256: text(/^[0-9a-f]{64}$/),
});
export type Summary = z.infer<typeof SUMMARY>;

export type Rows = Page & { table: string };

/** Throws if no new file can have this path, before a backup reads anything. */
export function requireNew(path: string): void {
  // A link is not followed: the backup would replace it.
  const find = (each: string) => {
    try {
      return lstatSync(each, { throwIfNoEntry: false });
    } catch (error) {
      throw pathError(path, error);
    }
  };
  const found = find(path) ?? find(partialOf(path));
  if (found?.isDirectory()) throw new UsageError(`${path} is a folder: name a new file in it`);
  if (found !== undefined) throw new UsageError(`${path} exists: give another name`);
  try {
    // With a separator at its end, the path of a file is that of no folder.
    accessSync(join(dirname(path), "/"), constants.W_OK);
  } catch (error) {
    throw pathError(dirname(path), error);
  }
}

/** The name of a file that is being written. */
const partialOf = (path: string) => `${path}.${process.pid}.partial`;

/** Writes a backup. The file has its name only when it is complete, and no other user can read it. */
export async function writeFile(path: string, header: Header, rows: AsyncIterable<Rows>): Promise<Summary> {
  const summary: Summary = { rows: {}, sha256: "" };
  const partial = partialOf(path);
  const remove = () => rmSync(partial, { force: true });
  // An interrupted command ends while this is still under way.
  process.on("exit", remove);
  try {
    const file = createWriteStream(partial, { flags: "wx", mode: 0o600, flush: true });
    await pipeline(textsOf(header, rows, summary), createGzip(), file);
    await publish(partial, path);
    await syncFolder(dirname(path));
    return summary;
  } finally {
    process.off("exit", remove);
    remove();
  }
}

/** Gives a complete file its name. Unlike a renaming, a link replaces no file that has got the name meanwhile. */
async function publish(partial: string, path: string): Promise<void> {
  await link(partial, path).catch((error) => {
    if (error.code === "EEXIST") throw new Error("it exists meanwhile");
    // Not every file system has links.
    return rename(partial, path);
  });
}

async function* textsOf(header: Header, rows: AsyncIterable<Rows>, summary: Summary) {
  const hash = createHash("sha256");
  const hashed = (text: string) => {
    hash.update(text);
    return text;
  };
  yield hashed(`${JSON.stringify({ format: FORMAT, version: VERSION, ...header })}\n`);
  for await (const { table, lines, count } of rows) {
    if (summary.rows[table] === undefined) yield hashed(`${JSON.stringify({ table })}\n`);
    summary.rows[table] = (summary.rows[table] ?? 0) + count;
    yield hashed(`${lines}\n`);
  }
  summary.sha256 = hash.digest("hex");
  yield `${JSON.stringify(summary)}\n`;
}

/** Makes the new name of a file durable, where the system can. */
async function syncFolder(path: string): Promise<void> {
  const folder = await open(path).catch(() => undefined);
  await folder?.sync().catch(() => {});
  await folder?.close();
}

/** Gets rows of a table, as many as one statement takes, and the number of their first line. */
type Visit = (table: string, lines: string[], number: number) => Promise<void>;

/** Reads a whole backup: the header, then rows. Throws if the file is damaged, which may turn out after the last visit. */
export async function readFile(
  path: string,
  begin: (header: Header) => Promise<Visit>,
): Promise<Summary & { header: Header }> {
  const hash = createHash("sha256");
  let header: Header | undefined;
  let visit: Visit | undefined;
  let number = 0;
  let summary: Summary | undefined;
  const rows: Summary["rows"] = {};
  let table = "";
  let lines: string[] = [];
  let bytes = 0;
  const flush = async () => {
    if (lines.length > 0) await visit?.(table, lines, number - lines.length);
    if (lines.length > 0) rows[table] = (rows[table] ?? 0) + lines.length;
    [lines, bytes] = [[], 0];
  };

  for await (const line of linesOf(path)) {
    if (summary) throw damaged(path, "lines follow the last one");
    number += 1;
    const length = Buffer.byteLength(line) + 1;
    if (header && table !== "" && line.startsWith("[")) {
      if (bytes + length > MAX_PAGE_BYTES || lines.length === MAX_PAGE_ROWS) await flush();
      lines.push(line);
      bytes += length;
    } else {
      await flush();
      const found = parse(line);
      if (header === undefined) {
        header = headerOf(path, found);
        visit = await begin(header);
      } else if ("sha256" in found) summary = checked(path, "last line", SUMMARY, found);
      else if (Object.hasOwn(header.layout, `${found.table}`)) table = `${found.table}`;
      else throw damaged(path, "it has a line of no table");
    }
    if (!summary) hash.update(`${line}\n`);
  }
  if (header === undefined || summary === undefined) throw damaged(path, "it ends too early");
  if (summary.sha256 !== hash.digest("hex")) throw damaged(path, "its content does not have its SHA-256");
  if (!isDeepStrictEqual(summary.rows, rows)) throw damaged(path, "it has not as many rows as it says");
  return { ...summary, header };
}

function headerOf(path: string, { format, version, ...header }: Record<string, unknown>): Header {
  if (format !== FORMAT) throw new Error(`${path} is not a backup of this service`);
  if (version === VERSION) return checked(path, "header", HEADER, header);
  if (!Number.isSafeInteger(version)) throw damaged(path, "its header has a wrong version");
  throw new Error(
    `${path} has version ${version} of the format, and this checkout reads version ${VERSION}: use the checkout that wrote it`,
  );
}

/** A line of the file, if it has the form of `schema`. The message says which field is wrong, and nothing that the file has. */
function checked<Value>(
  path: string,
  what: string,
  schema: z.ZodMiniObject & z.ZodMiniType<Value>,
  found: object,
): Value {
  const { success, data, error } = schema.safeParse(found);
  if (success) return data;
  throw damaged(path, `its ${what} has a wrong ${String(error.issues[0]?.path[0])}`);
}

function parse(line: string): Record<string, unknown> {
  try {
    return Object(JSON.parse(line));
  } catch {
    return {};
  }
}

async function* linesOf(path: string): AsyncGenerator<string> {
  const compressed = createReadStream(path);
  const gunzip = createGunzip({ chunkSize: 256 * 1024 }).setEncoding("utf8");
  compressed.on("error", (error) => gunzip.destroy(error)).pipe(gunzip);
  let rest = "";
  try {
    for await (const text of gunzip) {
      const lines = `${rest}${text}`.split("\n");
      rest = lines.pop() ?? "";
      if (rest.length > MAX_LINE_LENGTH) throw damaged(path, "a line is too long");
      yield* lines;
    }
  } catch (error) {
    // Of zlib.
    if ((error as NodeJS.ErrnoException).code?.startsWith("Z_")) throw damaged(path, messageOf(error));
    throw pathError(path, error);
  } finally {
    compressed.destroy();
  }
  // gunzip ignores zeros after the end.
  if (rest !== "" || gunzip.bytesWritten !== (await stat(path)).size)
    throw damaged(path, "its end is not that of a backup");
}

export function damaged(path: string, reason: string): Error {
  return new Error(`${path} is damaged or no backup (${reason}): use another copy, or another backup`);
}
