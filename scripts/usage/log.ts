// Counts what a log says about keys: the lines of src/http/log.ts, as the service writes them or within the events of
// `wrangler tail --format json`. A log has ids and no secrets. It is read line by line, however long it is, and what can't be
// read is an error, because numbers that leave something out look like others.

import { open } from "node:fs/promises";
import { createInterface } from "node:readline";
import { UsageError } from "../cloudflare/target.ts";

const OUTCOMES = ["admitted", "refused", "banned"] as const;

/** What became of a request with a valid key. Unlike GET /v1/usage, the log also has requests during a ban. */
export type Outcome = (typeof OUTCOMES)[number];

/** One UTC day, as `2026-11-20`. */
export interface LoggedDay extends Record<Outcome, number> {
  date: string;
}

export interface LoggedKey {
  keyId: string;
  days: LoggedDay[];
}

/** What a log says of all keys; `isIncomplete` if it says of itself that it is not the whole one. */
export interface LogUsage {
  keys: LoggedKey[];
  isIncomplete: boolean;
}

/** Of a line of src/http/log.ts, what counts here. */
interface Line {
  event?: unknown;
  keyId?: unknown;
  plan?: unknown;
  window?: unknown;
  route?: unknown;
  code?: unknown;
}

/** Of an event of `wrangler tail`, what counts here. */
interface TailEvent {
  logs: { message?: unknown[] }[];
  /** Unix time in milliseconds. */
  eventTimestamp?: unknown;
  event?: { type?: unknown } | null;
}

/** Numbers by key and UTC day. */
export class Tally {
  readonly #keys = new Map<string, Map<string, Record<Outcome, number>>>();

  /** `requests` may be negative, to take some back. */
  add(keyId: string, date: string, outcome: Outcome, requests = 1): void {
    const days = this.#keys.get(keyId) ?? new Map<string, Record<Outcome, number>>();
    const counts = days.get(date) ?? { admitted: 0, refused: 0, banned: 0 };
    counts[outcome] += requests;
    this.#keys.set(keyId, days.set(date, counts));
  }

  /** All keys, those with the most requests first, each on all of `dates`: those on which any key was used, if left out. */
  keys(dates = this.#dates()): LoggedKey[] {
    const keys = [...this.#keys].map(([keyId, days]) => ({
      keyId,
      days: dates.map((date) => ({ date, ...(days.get(date) ?? { admitted: 0, refused: 0, banned: 0 }) })),
    }));
    return keys.sort((one, other) => totalOf(other) - totalOf(one) || (one.keyId < other.keyId ? -1 : 1));
  }

  #dates(): string[] {
    return [...new Set([...this.#keys.values()].flatMap((days) => [...days.keys()]))].sort();
  }
}

/** The requests of a key on all of its days. */
export function totalOf({ days }: LoggedKey): number {
  return days.reduce((sum, day) => sum + OUTCOMES.reduce((part, outcome) => part + day[outcome], 0), 0);
}

/** The UTC day of a Unix time in milliseconds. */
export function dateOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}

/**
 * What became of the request that a line is about, or undefined if it counted for no key: only a valid one has a plan, and
 * `window` is there if its meter was asked, as it is for GET /v1/usage too, which costs nothing. Whoever was let in may
 * have got any status.
 */
export function outcomeOf({ plan, window, route, code }: Line): Outcome | undefined {
  if (plan === undefined || window === undefined || route === "/v1/usage") return;
  if (code === "key_banned") return "banned";
  return code === "rate_limit_exceeded" ? "refused" : "admitted";
}

/** The lines of a file, or of standard input if it is called `-`. */
export async function* linesOf(file: string): AsyncGenerator<string> {
  if (file === "-") {
    yield* createInterface({ input: process.stdin, crlfDelay: Number.POSITIVE_INFINITY });
    return;
  }
  try {
    const handle = await open(file);
    yield* handle.readLines();
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === "ENOENT") throw new UsageError(`there is no file ${file}`);
    throw new UsageError(`${file} can't be read: ${message}`);
  }
}

/** Counts the lines of the log called `name`. `date` is the day of those that have no time. Throws UsageError. */
export async function readLog(
  lines: AsyncIterable<string>,
  name: string,
  date: string | undefined,
): Promise<LogUsage> {
  const tally = new Tally();
  let isIncomplete = false;
  for await (const { value, lineNumber } of jsonValues(lines, name)) {
    const count = (line: Line, day = date) => {
      const outcome = outcomeOf(line);
      if (outcome === undefined) return;
      if (day === undefined) {
        throw new UsageError(
          `line ${lineNumber} of ${name} says no time: say which day it is of, with --date`,
        );
      }
      tally.add(`${line.keyId}`, day, outcome);
    };
    if (isTailEvent(value)) {
      const day = isTime(value.eventTimestamp) ? dateOf(value.eventTimestamp) : undefined;
      for (const message of value.logs.flatMap((log) => log.message ?? [])) {
        const line = parsed(message);
        if (isObject(line)) count(line, day);
      }
      // wrangler is told so when there is more to show than it gets.
      isIncomplete ||= value.event?.type === "overload";
    } else if (isObject(value) && typeof (value as Line).event === "string") {
      count(value);
    } else {
      throw new UsageError(
        `line ${lineNumber} of ${name} is neither one of the log nor an event of wrangler tail --format json`,
      );
    }
  }
  return { keys: tally.keys(), isIncomplete };
}

/**
 * The values that a file holds one after the other, each with the line where it begins: one a line, or over several lines
 * as JSON.stringify indents an object, where the first line is its opening brace alone and the last one its closing brace.
 */
async function* jsonValues(lines: AsyncIterable<string>, name: string) {
  let begun: string[] = [];
  let lineNumber = 0;
  for await (const line of lines) {
    lineNumber += 1;
    if (begun.length === 0 && line.trim() === "") continue;
    begun.push(line);
    if (begun[0] === "{" && line !== "}") continue;
    const value = parsed(begun.join("\n"));
    const firstLine = lineNumber - begun.length + 1;
    if (value === undefined) throw new UsageError(`what begins in line ${firstLine} of ${name} is not JSON`);
    yield { value, lineNumber: firstLine };
    begun = [];
  }
  if (begun.length > 0) throw new UsageError(`${name} ends in the middle of its last event`);
}

/** What a text is in JSON, or undefined. */
function parsed(text: unknown): unknown {
  try {
    return typeof text === "string" ? JSON.parse(text) : undefined;
  } catch {
    return undefined;
  }
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}

function isTailEvent(value: unknown): value is TailEvent {
  return isObject(value) && Array.isArray((value as Partial<TailEvent>).logs);
}

/** Whether this is a Unix time in milliseconds that has a date (ECMAScript, section 21.4.1.1). */
function isTime(value: unknown): value is number {
  return typeof value === "number" && Math.abs(value) <= 8.64e15;
}
