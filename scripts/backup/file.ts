// The file of a backup: lines, compressed with gzip. The first line is the header. Then follows, for each table, a line with its name and
// a line for each row, which is the JSON array of its values: texts, integers of 64 bits, null, and bytes as hexadecimal digits. The last
// line has the number of rows of each table, and the SHA-256 of all lines before it, which detects damage, but not forgery.

import { createHash } from "node:crypto";
import { createReadStream, createWriteStream, rmSync } from "node:fs";
import { open, rename, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { pipeline } from "node:stream/promises";
import { createGunzip, createGzip } from "node:zlib";
import type { Contents } from "../cloudflare/database.ts";
import { SIGNALS } from "../lib/interrupt.ts";
import { messageOf } from "../lib/io.ts";
import { type Layout, MAX_PAGE_BYTES, MAX_PAGE_ROWS, type Page } from "./tables.ts";

const FORMAT = "petstore backup";
/** Another number for what this version can't read. */
const VERSION = 1;

/** A longer line is not one of a backup. */
const MAX_LINE_LENGTH = 4 * MAX_PAGE_BYTES;

/** The details of a backup. */
export interface Header {
  /** When it began: RFC 3339. */
  createdAt: string;
  /** What was backed up, as words of a sentence. */
  source: string;
  /** The highest id that was ever assigned to a pet. */
  highestId: string;
  /** The files of the applied migrations. */
  migrations: Record<Contents, string[]>;
  layout: Layout;
}

export interface Summary {
  rows: Record<string, number>;
  sha256: string;
}

export type Rows = Page & { table: string };

/** Writes a backup. The file has its name only when it is complete, and no other user can read it. */
export async function writeFile(path: string, header: Header, rows: AsyncIterable<Rows>): Promise<Summary> {
  const summary: Summary = { rows: {}, sha256: "" };
  const partial = `${path}.${process.pid}.partial`;
  const remove = () => rmSync(partial, { force: true });
  const end = (_: NodeJS.Signals, number: number) => process.exit(128 + number);
  process.on("exit", remove);
  for (const signal of SIGNALS) process.on(signal, end);
  try {
    const file = createWriteStream(partial, { flags: "wx", mode: 0o600, flush: true });
    await pipeline(textsOf(header, rows, summary), createGzip(), file);
    await rename(partial, path);
    await syncFolder(dirname(path));
    return summary;
  } catch (error) {
    throw new Error(`${path} was not written: ${messageOf(error)}`, { cause: error });
  } finally {
    remove();
    process.off("exit", remove);
    for (const signal of SIGNALS) process.off(signal, end);
  }
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

/** Gets rows of a table, as many as one statement takes. */
type Visit = (table: string, lines: string[]) => Promise<void>;

/** Reads a whole backup: the header, then rows. Throws if the file is damaged, which may turn out after the last visit. */
export async function readFile(path: string, visit: Visit): Promise<Summary & { header: Header }> {
  const hash = createHash("sha256");
  let header: Header | undefined;
  let summary: Summary | undefined;
  let table = "";
  let lines: string[] = [];
  let bytes = 0;
  const flush = async () => {
    if (lines.length > 0) await visit(table, lines);
    [lines, bytes] = [[], 0];
  };

  for await (const line of linesOf(path)) {
    if (summary) throw damaged(path, "lines follow the last one");
    const length = Buffer.byteLength(line) + 1;
    if (header && table !== "" && line.startsWith("[")) {
      if (bytes + length > MAX_PAGE_BYTES || lines.length === MAX_PAGE_ROWS) await flush();
      lines.push(line);
      bytes += length;
    } else {
      await flush();
      const found = parse(line);
      if (header === undefined) header = headerOf(path, found);
      else if (typeof found.sha256 === "string") summary = found as unknown as Summary;
      else if (typeof found.table === "string" && header.layout[found.table]) table = found.table;
      else throw damaged(path, "it has a line of no table");
    }
    if (!summary) hash.update(`${line}\n`);
  }
  if (header === undefined || summary === undefined) throw damaged(path, "it ends too early");
  if (summary.sha256 !== hash.digest("hex")) throw damaged(path, "its content does not have its SHA-256");
  return { ...summary, header };
}

function headerOf(path: string, { format, version, ...header }: Record<string, unknown>): Header {
  if (format !== FORMAT) throw new Error(`${path} is not a backup of this service`);
  if (version === VERSION) return header as unknown as Header;
  throw new Error(
    `${path} has version ${version} of the format, and this checkout reads version ${VERSION}: use the checkout that wrote it`,
  );
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
    throw error;
  } finally {
    compressed.destroy();
  }
  // gunzip ignores zeros after the end.
  if (rest !== "" || gunzip.bytesWritten !== (await stat(path)).size)
    throw damaged(path, "its end is not that of a backup");
}

function damaged(path: string, reason: string): Error {
  return new Error(`${path} is damaged or no backup (${reason}): use another copy, or another backup`);
}
