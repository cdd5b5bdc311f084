// npm run usage: shows what keys did on the last days. It reads one of three sources: a running service, with the keys
// themselves; a log, which has only ids; or the log that Cloudflare keeps. It never prints a key.

import { createInterface } from "node:readline";
import { isWellFormedSecret } from "../src/keys/secret.ts";
import { DAYS_KEPT } from "../src/rate-limit/protocol.ts";
import { parseTime } from "./keys/arguments.ts";
import { print, readArguments, runCommand, UsageError } from "./lib/command.ts";
import { type LogUsage, readLines, readLog } from "./usage/log.ts";
import { fetchUsage } from "./usage/service.ts";
import { MAX_DAYS_LOGGED, queryTelemetry } from "./usage/telemetry.ts";
import { keyText, logText } from "./usage/text.ts";

const DEFAULT_URL = "http://localhost:8787";
const DEFAULT_DAYS = 7;

const USAGE = `npm run usage -- --key KEY [--key KEY ...] [--url URL] [--days N] [--json]
npm run usage -- --log FILE [--date DATE] [--json]
npm run usage -- --remote [--days N] [--json]

--key: ask the service at --url (default ${DEFAULT_URL}) for the windows and the last days of a key. Arguments are
visible to other users of this machine: --key - reads keys from standard input, one per line, and without any source
the command uses the key in the variable PETSTORE_KEY.
--log: count the lines of a log by key ID and UTC day. FILE is the output of npx wrangler tail petstore --format json,
or the lines of the service itself, which have no time and need --date (2026-11-22). - is standard input.
--remote: query the log that Cloudflare keeps, at most the last ${MAX_DAYS_LOGGED} days (3 on the Workers Free plan). It needs
CLOUDFLARE_API_TOKEN with the permission Workers Observability.
--days: how many days to show, up to today: 1 to ${DAYS_KEPT} (default ${DEFAULT_DAYS}).`;

const INCOMPLETE = "These counts are not exact: Cloudflare left out lines, because there were too many.\n";

const OPTIONS = {
  key: { type: "string", multiple: true },
  url: { type: "string" },
  log: { type: "string" },
  date: { type: "string" },
  remote: { type: "boolean" },
  days: { type: "string" },
  json: { type: "boolean", default: false },
  help: { type: "boolean", short: "h", default: false },
} as const;

type Values = ReturnType<typeof parse>;

/** The options that each source accepts. */
const SOURCES = { key: ["url", "days"], log: ["date"], remote: ["days"] } as const;

/** Runs the command with these arguments. Errors are for `runCommand`. */
export async function usage(args: string[]): Promise<void> {
  const values = parse(args);
  if (values.help) return print(USAGE);
  const source = readSource(values);
  if (source === "key") return showKeys(values);
  const logged = source === "log" ? await countLog(values) : await countRemote(values);
  if (logged.isIncomplete) process.stderr.write(INCOMPLETE);
  print(values.json ? JSON.stringify(logged.keys) : logText(logged.keys));
}

function parse(args: string[]) {
  const { values, positionals } = readArguments("usage", { args, options: OPTIONS, allowPositionals: true });
  if (positionals.length === 0) return values;
  // The argument is not repeated, because it may be a key. Without the "--", npm consumes the names of options.
  throw new UsageError("unexpected argument (did you forget -- after npm run usage?)");
}

function readSource(values: Values): keyof typeof SOURCES {
  const named = (Object.keys(SOURCES) as (keyof typeof SOURCES)[]).filter(
    (source) => values[source] !== undefined,
  );
  if (named.length > 1) throw new UsageError("--key, --log and --remote are mutually exclusive");
  const [source = process.env.PETSTORE_KEY ? "key" : undefined] = named;
  if (source === undefined) {
    throw new UsageError(
      "give --key KEY (or set PETSTORE_KEY), --log FILE or --remote: see npm run usage -- --help",
    );
  }
  for (const option of ["url", "date", "days"] as const) {
    if (values[option] !== undefined && !SOURCES[source].some((accepted) => accepted === option)) {
      throw new UsageError(`--${source} does not accept --${option}: see npm run usage -- --help`);
    }
  }
  return source;
}

async function showKeys(values: Values): Promise<void> {
  const url = readUrl(values.url ?? DEFAULT_URL);
  const dayCount = readDays(values.days, DAYS_KEPT);
  const keys = await readKeys(values.key ?? [process.env.PETSTORE_KEY ?? ""]);
  const fetched = await Promise.all(keys.map((key) => fetchUsage(url, key)));
  const shown = fetched.map(({ usage, ...rest }) => ({
    ...rest,
    usage: { ...usage, days: usage.days.slice(-dayCount) },
  }));
  if (values.json) return print(JSON.stringify(shown.map(({ lastFour, usage }) => ({ lastFour, ...usage }))));
  print(shown.map(({ lastFour, usage, nowMs }) => keyText(lastFour, usage, nowMs)).join("\n\n"));
}

function countLog({ log = "", date }: Values): Promise<LogUsage> {
  if (date !== undefined && parseTime(`${date}T00:00:00Z`) === undefined) {
    throw new UsageError("--date must be a UTC date, such as 2026-11-22");
  }
  return readLog(readLines(log), log === "-" ? "standard input" : log, date);
}

function countRemote({ days }: Values): Promise<LogUsage> {
  return queryTelemetry(readDays(days, MAX_DAYS_LOGGED), Date.now());
}

function readUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol === "http:" || url?.protocol === "https:") return url;
  throw new UsageError(`--url must be the URL of the service, such as ${DEFAULT_URL}`);
}

function readDays(text: string | undefined, max: number): number {
  const days = text === undefined ? DEFAULT_DAYS : /^[0-9]{1,2}$/.test(text) ? Number(text) : 0;
  if (days >= 1 && days <= max) return days;
  throw new UsageError(`--days must be a number from 1 to ${max}`);
}

/** The keys in the arguments and on standard input, without duplicates. */
async function readKeys(options: string[]): Promise<string[]> {
  const keys = new Set<string>();
  for (const option of options) {
    for (const key of option === "-" ? await readStandardInput() : [option]) keys.add(key);
  }
  if (keys.size === 0) throw new UsageError("standard input has no key: give one per line");
  for (const [index, key] of [...keys].entries()) {
    if (isWellFormedSecret(key)) continue;
    const which = keys.size === 1 ? "the key" : `key number ${index + 1}`;
    throw new UsageError(
      `${which} is malformed: a key is pet_ and 38 letters and digits (to count key IDs, use --log)`,
    );
  }
  return [...keys];
}

async function readStandardInput(): Promise<string[]> {
  const lines: string[] = [];
  for await (const line of createInterface({ input: process.stdin })) {
    if (line.trim() !== "") lines.push(line.trim());
  }
  return lines;
}

if (import.meta.main) await runCommand("usage", () => usage(process.argv.slice(2)));
