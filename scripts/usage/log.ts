// Counts requests by key from a log: the lines of src/http/log.ts, as the service writes them or inside the events of
// `wrangler tail --format json`. It streams the log. An unreadable line is an error, because a count without it would
// look complete.

import { open } from "node:fs/promises";
import { createInterface } from "node:readline";
import { UsageError } from "../lib/command.ts";

const OUTCOMES = ["admitted", "refused", "banned"] as const;

/** The outcome of a request with a valid key. Unlike GET /v1/usage, the log has requests during a ban. */
export type Outcome = (typeof OUTCOMES)[number];

type Counts = Record<Outcome, number>;

export interface LoggedDay extends Counts {
  /** UTC, as `2026-11-20`. */
  date: string;
}

export interface LoggedKey {
  keyId: string;
  days: LoggedDay[];
}

/** `isIncomplete` if the log itself says that lines are missing. */
export interface LogUsage {
  keys: LoggedKey[];
  isIncomplete: boolean;
}

/** The fields of a log line that matter here. */
interface Line {
  event?: unknown;
  keyId?: unknown;
  plan?: unknown;
  window?: unknown;
  route?: unknown;
  code?: unknown;
}

/** The fields of an event of `wrangler tail` that matter here. */
interface TailEvent {
  logs: { message?: unknown[] }[];
  /** Unix time in milliseconds. */
  eventTimestamp?: unknown;
  event?: { type?: unknown } | null;
}

const ZERO: Counts = { admitted: 0, refused: 0, banned: 0 };

/** Counts by key and UTC day. */
export class Tally {
  readonly #keys = new Map<string, Map<string, Counts>>();

  /** `requests` may be negative. */
  add(keyId: string, date: string, outcome: Outcome, requests = 1): void {
    const days = this.#keys.get(keyId) ?? new Map<string, Counts>();
    const counts = days.get(date) ?? ZERO;
    this.#keys.set(keyId, days.set(date, { ...counts, [outcome]: counts[outcome] + requests }));
  }

  /** All keys, the busiest first, each with all `dates` (default: the dates on which any key was used). */
  keys(dates = this.#dates()): LoggedKey[] {
    const keys = [...this.#keys].map(([keyId, days]) => ({
      keyId,
      days: dates.map((date) => ({ date, ...(days.get(date) ?? ZERO) })),
    }));
    return keys.sort((a, b) => totalOf(b) - totalOf(a) || (a.keyId < b.keyId ? -1 : 1));
  }

  #dates(): string[] {
    return [...new Set([...this.#keys.values()].flatMap((days) => [...days.keys()]))].sort();
  }
}

/** The requests of a key on all its days. */
export function totalOf({ days }: LoggedKey): number {
  return days.reduce((sum, day) => sum + OUTCOMES.reduce((part, outcome) => part + day[outcome], 0), 0);
}

/** The UTC day of a Unix time in milliseconds. */
export function dateOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}

/**
 * The outcome of a line's request, or undefined if it counted for no key. Only requests with a valid key have a plan; only
 * those that asked the limiter have a window. GET /v1/usage asks it too, but is free.
 */
export function outcomeOf({ plan, window, route, code }: Line): Outcome | undefined {
  if (plan === undefined || window === undefined || route === "/v1/usage") return;
  if (code === "key_banned") return "banned";
  return code === "rate_limit_exceeded" ? "refused" : "admitted";
}

/** The lines of a file, or of standard input for `-`. */
export async function* readLines(file: string): AsyncGenerator<string> {
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
    throw new UsageError(`can't read ${file}: ${message}`);
  }
}

/** Counts the lines of the log called `name`. `date` is the day of lines that have no time. Throws UsageError. */
export async function readLog(
  lines: AsyncIterable<string>,
  name: string,
  date: string | undefined,
): Promise<LogUsage> {
  const tally = new Tally();
  let isIncomplete = false;
  for await (const { value, lineNumber } of jsonValues(lines, name)) {
    const tailEvent = isTailEvent(value) ? value : undefined;
    if (tailEvent === undefined && !isLine(value)) {
      throw new UsageError(
        `line ${lineNumber} of ${name} is neither a log line of the service nor an event of wrangler tail --format json`,
      );
    }
    const day = isTime(tailEvent?.eventTimestamp) ? dateOf(tailEvent.eventTimestamp) : date;
    const logged = tailEvent?.logs.flatMap(({ message = [] }) => message.map(parseJson)) ?? [value];
    for (const line of logged.filter(isObject)) {
      const outcome = outcomeOf(line);
      if (outcome === undefined) continue;
      if (day === undefined) {
        throw new UsageError(`line ${lineNumber} of ${name} has no time: give its day with --date`);
      }
      tally.add(`${line.keyId}`, day, outcome);
    }
    // Cloudflare sends this event to wrangler when it begins to sample.
    isIncomplete ||= tailEvent?.event?.type === "overload";
  }
  return { keys: tally.keys(), isIncomplete };
}

/**
 * The JSON values in a file, each with the number of its first line. A value is one line, or an object as JSON.stringify
 * indents it: it starts with a line `{` and ends with a line `}`.
 */
async function* jsonValues(lines: AsyncIterable<string>, name: string) {
  let pending: string[] = [];
  let lineNumber = 0;
  for await (const line of lines) {
    lineNumber += 1;
    if (pending.length === 0 && line.trim() === "") continue;
    pending.push(line);
    if (pending[0] === "{" && line !== "}") continue;
    const value = parseJson(pending.join("\n"));
    const firstLine = lineNumber - pending.length + 1;
    if (value === undefined) throw new UsageError(`line ${firstLine} of ${name} does not start valid JSON`);
    yield { value, lineNumber: firstLine };
    pending = [];
  }
  if (pending.length > 0) throw new UsageError(`${name} ends in the middle of an event`);
}

/** undefined if `text` is not JSON. */
function parseJson(text: unknown): unknown {
  try {
    return typeof text === "string" ? JSON.parse(text) : undefined;
  } catch {
    return undefined;
  }
}

function isObject(value: unknown): value is Line {
  return typeof value === "object" && value !== null;
}

function isLine(value: unknown): boolean {
  return isObject(value) && typeof value.event === "string";
}

function isTailEvent(value: unknown): value is TailEvent {
  return isObject(value) && Array.isArray((value as Partial<TailEvent>).logs);
}

/** Whether this is a Unix time in milliseconds within the range of Date (ECMAScript, section 21.4.1.1). */
function isTime(value: unknown): value is number {
  return typeof value === "number" && Math.abs(value) <= 8.64e15;
}
