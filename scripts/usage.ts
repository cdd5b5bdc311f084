// npm run usage: shows an operator in a terminal what keys did on the last days, from one of three sources: a running
// service, which is asked with the keys themselves; a log, where there are only ids; or Cloudflare, which keeps the log. It
// changes nothing, and never prints a key.

import { createInterface } from "node:readline";
import { parseArgs } from "node:util";
import { isWellFormedSecret } from "../src/keys/secret.ts";
import { DAYS_KEPT } from "../src/rate-limit/protocol.ts";
import { print, runCommand, UsageError } from "./cloudflare/target.ts";
import { type LogUsage, linesOf, readLog } from "./usage/log.ts";
import { askUsage } from "./usage/service.ts";
import { askCloudflare, MAX_DAYS_LOGGED } from "./usage/telemetry.ts";
import { keyText, logText } from "./usage/text.ts";

const DEFAULT_URL = "http://localhost:8787";
const DEFAULT_DAYS = 7;

const USAGE = `npm run usage -- --key KEY [--key KEY ...] [--url URL] [--days N] [--json]
npm run usage -- --log FILE [--date DATE] [--json]
npm run usage -- --remote [--days N] [--json]

--key asks the service at --url (${DEFAULT_URL} if it is left out) how a key stands, and what it did on the last
days. Other users of this machine can see arguments: --key - reads keys from standard input, one a line, and without
any source the command takes the key in the variable PETSTORE_KEY.
--log counts the lines of a log by key id and UTC day: FILE is what npx wrangler tail petstore --format json has
written, or lines as the service writes them, which say no time, so that --date (2026-11-22) must. - is standard input.
--remote has Cloudflare count the log that it keeps: the last ${MAX_DAYS_LOGGED} days at most, 3 on the Workers Free plan. It needs
CLOUDFLARE_API_TOKEN with the permission Workers Observability.
--days is how many days to show, up to today: 1 to ${DAYS_KEPT}, ${DEFAULT_DAYS} if it is left out.`;

const INCOMPLETE =
  "These numbers are not exact: Cloudflare has passed over lines, because there were too many.\n";

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

type Values = ReturnType<typeof readArguments>;

/** Each source with the options that belong to it alone, or to it and another. */
const SOURCES = { key: ["url", "days"], log: ["date"], remote: ["days"] } as const;

/** Runs the command with these arguments. Throws as `runCommand` wants it. */
export async function usage(args: string[]): Promise<void> {
  const values = readArguments(args);
  if (values.help) return print(USAGE);
  const source = readSource(values);
  if (source === "key") return showKeys(values);
  const logged = source === "log" ? await showLog(values) : await showRemote(values);
  if (logged.isIncomplete) process.stderr.write(INCOMPLETE);
  print(values.json ? JSON.stringify(logged.keys) : logText(logged.keys));
}

function readArguments(args: string[]) {
  try {
    const { values, positionals } = parseArgs({ args, options: OPTIONS, allowPositionals: true });
    if (positionals.length === 0) return values;
  } catch (error) {
    // Node goes on with advice about its own syntax after the first sentence.
    const [problem] = `${error instanceof Error ? error.message : error}`.split(/\. |\.?\n/);
    throw new UsageError(`${problem}: see npm run usage -- --help`);
  }
  // It is not repeated, because it may be a key. npm takes options that stand before a "--" for its own.
  throw new UsageError('there is a word too many, or the -- after "npm run usage" is missing');
}

/** Where to look: what is said, or else at the service, with the key in the environment. */
function readSource(values: Values): keyof typeof SOURCES {
  const named = (Object.keys(SOURCES) as (keyof typeof SOURCES)[]).filter(
    (each) => values[each] !== undefined,
  );
  if (named.length > 1) {
    throw new UsageError("--key, --log and --remote are different sources: give one of them");
  }
  const [source = process.env.PETSTORE_KEY ? "key" : undefined] = named;
  if (source === undefined) {
    throw new UsageError(
      "say where to look: --key KEY, PETSTORE_KEY in the environment, --log FILE or --remote; see npm run usage -- --help",
    );
  }
  for (const option of ["url", "date", "days"] as const) {
    if (values[option] !== undefined && !SOURCES[source].some((each) => each === option)) {
      throw new UsageError(`--${option} does not belong to --${source}: see npm run usage -- --help`);
    }
  }
  return source;
}

async function showKeys(values: Values): Promise<void> {
  const url = readUrl(values.url ?? DEFAULT_URL);
  const dayCount = readDays(values.days, DAYS_KEPT);
  const keys = await readKeys(values.key ?? [process.env.PETSTORE_KEY ?? ""]);
  const answers = await Promise.all(keys.map((key) => askUsage(url, key)));
  const shown = answers.map(({ lastFour, usage, nowMs }) => ({
    lastFour,
    nowMs,
    usage: { ...usage, days: usage.days.slice(-dayCount) },
  }));
  if (values.json) return print(JSON.stringify(shown.map(({ lastFour, usage }) => ({ lastFour, ...usage }))));
  print(shown.map(({ lastFour, usage, nowMs }) => keyText(lastFour, usage, nowMs)).join("\n\n"));
}

function showLog({ log = "", date }: Values): Promise<LogUsage> {
  const dateMs = Date.parse(`${date}T00:00:00Z`);
  // 30 February would become a day of March.
  if (date !== undefined && !(dateMs >= 0 && new Date(dateMs).toISOString().startsWith(date))) {
    throw new UsageError("--date must be a UTC date, such as 2026-11-22");
  }
  return readLog(linesOf(log), log === "-" ? "standard input" : log, date);
}

function showRemote({ days }: Values): Promise<LogUsage> {
  return askCloudflare(readDays(days, MAX_DAYS_LOGGED), Date.now());
}

function readUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol === "http:" || url?.protocol === "https:") return url;
  throw new UsageError(`--url must be where the service is, such as ${DEFAULT_URL}`);
}

function readDays(text: string | undefined, most: number): number {
  const days = text === undefined ? DEFAULT_DAYS : /^[0-9]{1,2}$/.test(text) ? Number(text) : 0;
  if (days >= 1 && days <= most) return days;
  throw new UsageError(`--days must be a number from 1 to ${most}`);
}

/** The keys that the arguments name, each once. */
async function readKeys(words: string[]): Promise<string[]> {
  const keys = new Set<string>();
  for (const word of words) {
    const texts = word === "-" ? await linesOfStandardInput() : [word];
    for (const text of texts) keys.add(text);
  }
  if (keys.size === 0) throw new UsageError("there was no key on standard input: it takes one a line");
  for (const [index, key] of [...keys].entries()) {
    if (isWellFormedSecret(key)) continue;
    const which = keys.size === 1 ? "this" : `number ${index + 1}`;
    throw new UsageError(
      `${which} is not an API key, or is mistyped: pet_ and 38 letters and digits; ids of keys are in a log: see --log`,
    );
  }
  return [...keys];
}

async function linesOfStandardInput(): Promise<string[]> {
  const lines: string[] = [];
  for await (const line of createInterface({ input: process.stdin })) {
    if (line.trim() !== "") lines.push(line.trim());
  }
  return lines;
}

if (import.meta.main) await runCommand("usage", () => usage(process.argv.slice(2)));
