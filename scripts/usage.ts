// npm run usage: shows what keys did on the last days. It asks a running service, with the keys themselves, or the log that
// Cloudflare keeps, which has only ids. It never prints a key.

import { text } from "node:stream/consumers";
import { InvalidArgumentError, Option } from "@commander-js/extra-typings";
import { isWellFormedSecret } from "../src/keys/secret.ts";
import { DAYS_KEPT } from "../src/rate-limit/protocol.ts";
import { openAccount } from "./cloudflare/account.ts";
import { readConfig } from "./cloudflare/wrangler.ts";
import { type Define, type Io, integer, newCommand, UsageError } from "./lib/command.ts";
import { fetchUsage } from "./usage/service.ts";
import { MAX_DAYS_LOGGED, queryKeys } from "./usage/telemetry.ts";
import { keyText, logText } from "./usage/text.ts";

interface Options {
  key?: string[] | undefined;
  url: URL;
  remote?: true | undefined;
  days: number;
  json?: true | undefined;
}

const define: Define = (io) =>
  newCommand(
    "npm run usage",
    "Shows what keys did on the last UTC days: the keys of --key, which may also be in the variable PETSTORE_KEY, or all keys.",
    "--remote --days 3",
    "--key - --url https://petstore.example",
  )
    .option(
      "--key <key>",
      "ask the service about a key; - reads keys from standard input, out of others' sight",
      append,
    )
    .option("--url <url>", "the address of the service", serviceUrl, new URL("http://localhost:8787"))
    .addOption(
      new Option(
        "--remote",
        `count all keys in Cloudflare's log of production, of ${MAX_DAYS_LOGGED} days (3 on Workers Free)`,
      ).conflicts(["key", "url"]),
    )
    .option("--days <n>", "how many days to show, up to today", integer(1, DAYS_KEPT), 7)
    .option("--json", "print one JSON value")
    .action((options) => (options.remote ? showLog(io, options) : showKeys(io, options)));

async function showLog(io: Io, { days, json }: Options): Promise<void> {
  if (days > MAX_DAYS_LOGGED) throw new UsageError(`--days must be at most ${MAX_DAYS_LOGGED} with --remote`);
  const [{ name }, { label }] = await Promise.all([readConfig(), openAccount()]);
  const work = `Reading Cloudflare's log of the Worker ${name} in the account ${label}`;
  const { keys, isIncomplete } = await io.step(work, () => queryKeys(days, Date.now()));
  if (json) io.printJson(keys);
  else io.print(logText(keys));
  if (isIncomplete)
    io.note("These counts are not exact: Cloudflare left out lines, because there were too many.");
  if (keys.length > 0) io.note("Next, look at a key: npm run keys -- show ID --remote");
}

async function showKeys(io: Io, { key, url, days, json }: Options): Promise<void> {
  const keys = await readKeys(io, key ?? [io.env.PETSTORE_KEY ?? ""]);
  const fetched = await io.step(`Asking the service at ${url.origin}`, () =>
    Promise.all(keys.map((each) => fetchUsage(url, each))),
  );
  const shown = fetched.map(({ usage, ...rest }) => ({
    ...rest,
    usage: { ...usage, days: usage.days.slice(-days) },
  }));
  if (json) io.printJson(shown.map(({ lastFour, usage }) => ({ lastFour, ...usage })));
  else io.print(shown.map(({ lastFour, usage, nowMs }) => keyText(lastFour, usage, nowMs)).join("\n\n"));
}

/** The keys in the arguments and on standard input, without duplicates. */
async function readKeys(io: Io, options: string[]): Promise<string[]> {
  // npm keeps --key for itself if the "--" is missing, and leaves no trace of it.
  if (options.join() === "")
    throw new UsageError("add --key KEY or --remote after npm run usage --, or set PETSTORE_KEY");
  const input = options.includes("-") ? (await text(io.stdin)).split("\n") : [];
  const lines = input.map((line) => line.trim()).filter((line) => line !== "");
  const keys = [...new Set(options.flatMap((option) => (option === "-" ? lines : [option])))];
  if (keys.length === 0) throw new UsageError("standard input has no key: give one per line");
  const malformed = keys.findIndex((key) => !isWellFormedSecret(key));
  if (malformed === -1) return keys;
  // It is not repeated, because it may be most of a key.
  const which = keys.length === 1 ? "the key" : `key number ${malformed + 1}`;
  throw new UsageError(
    `${which} is malformed: a key is pet_ and 38 letters and digits (for key IDs, use npm run keys -- show ID)`,
  );
}

function append(key: string, keys: string[] = []): string[] {
  return [...keys, key];
}

function serviceUrl(value: string): URL {
  const url = URL.canParse(value) ? new URL(value) : undefined;
  if (url?.protocol === "http:" || url?.protocol === "https:") return url;
  throw new InvalidArgumentError("It must be the address of the service, such as http://localhost:8787.");
}

export default define;
