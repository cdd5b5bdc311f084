// Lengths of time and limits in the documents are those of the code. A document has to contain each of its phrases, and has no other figure
// with a unit except FOREIGN ones: so a changed constant fails until every place says so, and a new or reworded figure until it is here.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { MAX_GRACE_DAYS } from "../../scripts/commands/keys/rotate.ts";
import { stepsOf } from "../../scripts/deploy/smoke-test.ts";
import { MAX_COUNT, PAGE_SIZE } from "../../scripts/keys/options.ts";
import { FRESH_MS } from "../../src/d1/freshness.ts";
import { MAX_BODY_BYTES, MAX_BODY_MS } from "../../src/http/body.ts";
import { MESSAGES } from "../../src/http/messages.ts";
import { OPERATIONS } from "../../src/http/operations.ts";
import { ID_LENGTH } from "../../src/http/request-context.ts";
import { CALL_DEADLINE_MS } from "../../src/keys/isolate/call-object.ts";
import { HeldLease } from "../../src/keys/isolate/held-lease.ts";
import { MAX_DECISIONS } from "../../src/keys/isolate/local-decisions.ts";
import {
  BAN_GRACE_MS,
  BAN_MS,
  MIN_TOLERATED_REFUSALS,
  TOLERATED_LIMITS,
} from "../../src/keys/object/bans.ts";
import { PLAN_LIMITS } from "../../src/keys/plans.ts";
import { DAY_MS, DAYS_KEPT, LEASE_MS, MAX_WAIT_MS } from "../../src/keys/protocol.ts";
import { MAX_REPLACED_SECRETS } from "../../src/keys/record.ts";
import { keyIdOf } from "../../src/keys/secret.ts";
import { MAX_USAGE_AGE_MS } from "../../src/keys/usage/usage-body.ts";
import { fillGuide } from "../../src/openapi/guide.ts";
import { BANS_COUNTED_DAYS, EXPIRING_DAYS } from "../../src/operators/records.ts";
import { MAX_KEY_LENGTH, RETENTION_MS, ROW_RETENTION_MS } from "../../src/pets/idempotency.ts";
import { MAX_NAME_CODE_POINTS, PET_STATUSES, Pet } from "../../src/pets/schema.ts";
import { REQUESTS_PER_MINUTE } from "../../src/rate-limit/anonymous.ts";

it.each(Object.values(OPERATIONS))("the README has $method $path", ({ method, path }) => {
  expect(readFileSync("README.md", "utf8")).toContain(`| \`${method.toUpperCase()} /v1${path}\``);
});

it.each(["README.md", "docs/operating.md"])("%s has each subcommand of keys", (file) => {
  const names = readdirSync("scripts/commands/keys").map((name) => name.replace(".ts", ""));
  expect(names.length).toBeGreaterThan(5);
  const text = readFileSync(file, "utf8");
  for (const name of names) expect(text).toMatch(new RegExp(`(\`|petstore keys (.*\\b)?)${name}\\b`));
});

it.each(["README.md", "client/README.md"])("%s has each field and status of a pet", (file) => {
  const text = readFileSync(file, "utf8");
  const names = [...Object.keys(Pet.shape), ...PET_STATUSES];
  expect(names.filter((name) => !text.includes(`\`${name}\``))).toEqual([]);
});

it("the secrets in documents have the form of secrets, and the output of a deployment the steps of the smoke test", () => {
  const text = ["README.md", "docs/operating.md", "docs/deploying.md"]
    .map((file) => readFileSync(file, "utf8"))
    .join("\n");
  const secrets = text.match(/pet_\w{20,}/g) ?? [];
  expect(secrets.length).toBeGreaterThan(1);
  expect(secrets.filter((secret) => keyIdOf(secret) === undefined)).toEqual([]);
  expect(text).toContain(
    stepsOf(false)
      .map(([name]) => `\n  ${name}`)
      .join(""),
  );
});

it("docs/operating.md has the names that the code gives to log events, codes and tables", () => {
  const text = readFileSync("docs/operating.md", "utf8");
  const names = new Set(text.match(/(?<=`)[a-z]+(?:_[a-z]+)+(?=`)/g));
  expect(names.size).toBeGreaterThan(10);
  const code = ["src", "migrations"]
    .flatMap((folder) => readdirSync(folder, { recursive: true, withFileTypes: true }))
    .filter((each) => each.isFile() && /\.(ts|sql)$/.test(each.name))
    .map((each) => readFileSync(join(each.parentPath, each.name), "utf8"))
    .join("\n");
  expect([...names].filter((name) => !code.includes(name) && !name.startsWith("sqlite_"))).toEqual([]);
});

/** The numbers of files by their names, also those that they do not export. */
function constantsOf(...files: string[]): (name: string) => number {
  const source = files.map((file) => readFileSync(file, "utf8")).join("");
  const declarations = source.matchAll(/^(?:export )?const ([A-Z_\d]+) = (.+);$/gm);
  const constants: Record<string, number> = { DAY_MS };
  for (const [, name = "", source = ""] of declarations) {
    const numberOf = (text: string) => constants[text] ?? Number(text.replaceAll("_", ""));
    const factors = source.split(" * ").map((each) =>
      each
        .split(" / ")
        .map(numberOf)
        .reduce((a, b) => a / b),
    );
    constants[name] = factors.reduce((product, factor) => product * factor);
  }
  return (name) => {
    const value = constants[name] ?? Number.NaN;
    if (Number.isNaN(value)) throw new Error(`${files.join()} has no number ${name}`);
    return value;
  };
}

const freshness = constantsOf("src/d1/freshness.ts");
const client = constantsOf("src/keys/isolate/call-pace.ts", "src/keys/isolate/counting-calls.ts");
const keys = constantsOf("src/keys/isolate/key-clients.ts", "src/keys/isolate/known-keys.ts");
const leases = constantsOf("src/keys/object/leases.ts");
const reader = constantsOf("src/keys/object/record-reader.ts");
const object = constantsOf("src/keys/object/api-key.ts");
const records = constantsOf("src/pets/idempotency.ts");
const answers = constantsOf("src/http/errors.ts");
const DATABASE = seconds(constantsOf("src/d1/statements.ts")("DEADLINE_MS"));
const LOOKUP = seconds(constantsOf("src/keys/isolate/lookup-throttle.ts")("MAX_SLOT_WAIT_MS"));
const RETRY = constantsOf("src/keys/isolate/call-object.ts")("RETRY_PAUSE_MS");
const USAGE = seconds(MAX_USAGE_AGE_MS);
const SPARE_IDS = constantsOf("scripts/cloudflare/time-travel.ts")("SPARE_IDS");
const POLL = constantsOf("src/site/usage/usage.ts")("POLL_MS");
const PAGES = constantsOf("src/pets/page-cache.ts")("MAX_BYTES") / 2 ** 20;
const CRON = Number(/crons = \["\*\/(\d+) \* \* \* \*"\]/.exec(readFileSync("wrangler.toml", "utf8"))?.[1]);

const WORDS = "zero one two three four five six seven eight nine ten".split(" ");
const inWords = (value: number) => WORDS[value] ?? `${value}`;
function seconds(ms: number): string {
  return `${ms / 1000}`;
}
const SHARES: Record<number, string> = { 0.25: "a quarter", 0.5: "half" };
const number = (value: number) => value.toLocaleString("en");
const minutes = (ms: number) => inWords(ms / 60_000);

const FRESH = seconds(FRESH_MS);
const WAIT = seconds(MAX_WAIT_MS);
const CALL = seconds(CALL_DEADLINE_MS);
const LEASE = seconds(LEASE_MS);
const BODY = seconds(MAX_BODY_MS);
const KIB = MAX_BODY_BYTES / 1024;
const AGE = seconds(reader("MAX_AGE_MS"));
const REFRESH = seconds(reader("REFRESH_MS"));
const READ = seconds(reader("DEADLINE_MS"));
const STALE = reader("STALE_IF_ERROR_MS") / 60_000;
const HOURS = RETENTION_MS / 3_600_000;
const LONGER = minutes(ROW_RETENTION_MS - RETENTION_MS);
const CALLS = inWords(client("MAX_CALLS"));
const KEPT_DAYS = object("KEPT_UNUSED_MS") / DAY_MS - 1;
const DELETED = records("STEPS_PER_RUN") * records("ROWS_PER_STEP");
/** When a banned isolate renews the record, which may be this old when it gets it. */
const RENEWAL = `${(FRESH_MS / 2 - reader("REFRESH_MS")) / 1000} to ${FRESH_MS / 2 / 1000}`;
/** The longest interval of steady requests that get a lease. */
const STEADY = longestInterval((lease, nowMs) => lease.recent(nowMs) >= leases("MIN_RECENT")).toFixed(1);
const { free } = PLAN_LIMITS;

/** In seconds. */
function longestInterval(isLeased: (lease: HeldLease, nowMs: number) => boolean): number {
  for (let intervalMs = LEASE_MS; ; intervalMs -= 10) {
    const lease = new HeldLease();
    const arrivals = Array.from({ length: 100 }, (_, index) => index * intervalMs);
    for (const nowMs of arrivals) lease.recordArrival(nowMs);
    if (isLeased(lease, arrivals.at(-1) ?? 0)) return intervalMs / 1000;
  }
}

/** What each document says of the code. */
const PHRASES: Record<string, string[]> = {
  "README.md": [
    fillGuide("`limit` ({{minLimit}} to {{maxLimit}}, default {{defaultLimit}})"),
    fillGuide("removed on {{removedAt}}"),
    `\`name\` (1 to ${MAX_NAME_CODE_POINTS} characters)`,
    `(1 to ${MAX_KEY_LENGTH} visible ASCII characters)`,
    `has ${ID_LENGTH.min} to ${ID_LENGTH.max} letters`,
    `limit of ${free.minute} requests per minute`,
    `RateLimit-Policy: "minute";q=${free.minute};w=60, "day";q=${free.day};`,
  ],
  "SECURITY.md": [`within ${FRESH} seconds`],
  "DESIGN.md": [
    `usage cache (${USAGE} s)`,
    `isolate memory, ${number(keys("MAX_CLIENTS"))} keys`,
    `isolate memory, ${PAGES} MiB, fresh for ${FRESH} s`,
    `| Usage | isolate memory, ${USAGE} s |`,
    `record older than ${AGE} s`,
    `record older than ${REFRESH} s`,
    `at most ${AGE} s since the read began, read again from ${REFRESH} s on; ${STALE} minutes more`,
    `each isolate that uses the key | at most ${FRESH} s since the read began`,
    `an id, ${AGE} s; isolates: ids and secrets, ${FRESH} s`,
    `in force everywhere within ${FRESH} s`,
    `at most one read of a key in ${REFRESH} s, or one in ${seconds(reader("REREAD_MS"))} s while`,
    `Its time is ${SHARES[leases("TIME_SHARE")]} of the time`,
    `at most ${SHARES[leases("LEASE_SHARE")]} of what is left`,
    `After ${REQUESTS_PER_MINUTE} unknown secrets in one minute`,
    `reserves one of the ${REQUESTS_PER_MINUTE}`,
    `a request waits up to ${LOOKUP} s, then gets a 503`,
    `has a record of at most ${STALE} min ${AGE} s`,
    `the record is for ${seconds(reader("FAILURE_PAUSE_MS"))} s, then`,
    `until its record is ${FRESH} s old`,
    `by itself; after ${FRESH} s it reads`,
    `${READ} s for a read by the object, ${CALL} s for a call, ${WAIT} s for all that a request waits`,
    `outlive their ${HOURS} h by ${LONGER} minutes`,
    `at most ${CALLS} calls a second`,
    `a Free key (${free.minute} a minute)`,
    `a moving average over ${LEASE} s`,
    `leases 12 for ${LEASE} s`,
    `at least ${seconds(leases("MIN_LEASE_MS"))} s and at most ${LEASE} s`,
    `(In the last ${WAIT} s of a minute`,
    `or after ${client("UNDECIDED_PAUSE_MS")} ms, later if a call`,
    `waited in its last ${WAIT} s, nothing in the first ${WAIT} s`,
    `or until ${seconds(leases("RELEASE_MS"))} s after its time`,
    `After ${WAIT} s its isolate decides`,
    `${DAYS_KEPT} days of totals`,
    `unused for ${KEPT_DAYS} days`,
    `it is at most ${FRESH} s old`,
    `after ${seconds(freshness("REVALIDATE_MS"))} of their ${FRESH} s`,
    `the same batch after ${RETRY} ms`,
    `no answer in ${CALL} s, a second error, or no decision in ${WAIT} s`,
    `up to ${MAX_DECISIONS} of these batches`,
    `did not cause, or no answer in ${DATABASE} s`,
    `not complete within ${BODY} s`,
  ],
  "docs/operating.md": [
    `take effect everywhere within ${FRESH} s`,
    `This takes effect everywhere within ${FRESH} seconds.`,
    `a grace period over ${FRESH} s`,
    `\`expiring\` within ${EXPIRING_DAYS} days`,
    `pages of ${PAGE_SIZE} keys`,
    `The old key ends within ${FRESH} s`,
    `(at most ${MAX_GRACE_DAYS} days)`,
    `banned most often in ${BANS_COUNTED_DAYS} days`,
    `zone sent ${REQUESTS_PER_MINUTE} unknown keys`,
    `creates up to ${number(MAX_COUNT)} keys`,
    `what expires within ${EXPIRING_DAYS} days`,
    `works again within ${FRESH} s`,
    `the latest ${PAGE_SIZE} first`,
    `stopped after ${REQUESTS_PER_MINUTE} requests in a minute`,
    `is ${SPARE_IDS === 1_000_000 ? "a million" : number(SPARE_IDS)} above the highest`,
    `old pages until ${FRESH} s after`,
    `--limit ${MAX_COUNT} --json`,
    `requests for up to ${LEASE} s; each grant`,
    `for up to ${WAIT} s if a burst`,
    `takes effect there within ${FRESH} s`,
    `banned for ${minutes(BAN_MS)} minutes`,
    `more than ${seconds(BAN_GRACE_MS)} s after the minute's first refusal`,
    `max(${MIN_TOLERATED_REFUSALS}, ${TOLERATED_LIMITS} × the largest limit`,
    ...[PLAN_LIMITS.free, PLAN_LIMITS.pro].map(
      ({ minute, day }) => `plan, ${minute} requests per minute, ${day} per day, never expires.`,
    ),
    ...Object.values(MESSAGES.unauthorized).map((message) => `| \`${message.replace(/:.*/, ": …")}\` |`),
    `each grant adds at most ${SHARES[leases("LEASE_SHARE")]} of what is left`,
    `(${ID_LENGTH.min} to ${ID_LENGTH.max} letters, digits`,
    `tries again every ${seconds(object("RECORD_PAUSE_MS"))} s`,
    `every ${RENEWAL} s for the key's record`,
    `an unban takes effect within ${FRESH} s`,
    `the last ${DAYS_KEPT} UTC days`,
    `every ${inWords(POLL / 1000)} seconds while it is visible`,
    `a delay of some ${RETRY} ms`,
    `does not answer for ${CALL} s, or does not decide for ${WAIT} s`,
    `its last ${MAX_DECISIONS} local batches`,
    `The pets database throws, or does not answer for ${DATABASE} s`,
    `\`Retry-After: ${answers("RETRY_AFTER_SECONDS")}\``,
    `\`Retry-After: ${answers("FULL_RETRY_AFTER_SECONDS")}\``,
    `The keys database throws, or does not answer for ${READ} s | nothing for ${STALE} minutes`,
    `each read that fails: one in ${seconds(reader("FAILURE_PAUSE_MS"))} s`,
    `for up to ${STALE} minutes and ${AGE} seconds`,
    `decide by themselves for ${FRESH} s; then 503`,
    `runs every ${inWords(CRON)} minutes`,
    `at most ${number(DELETED)} rows a run`,
    `honoured after ${HOURS} hours and ${LONGER} minutes`,
  ],
  "docs/security.md": [
    `at most ${REQUESTS_PER_MINUTE} unknown keys per minute`,
    `end it within ${FRESH} s`,
    `must arrive within ${BODY} s`,
    `| ${KIB} KiB, by the announced`,
    `| ${BODY} s, and ${BODY} s more to discard`,
    `| ${REQUESTS_PER_MINUTE} per minute and address`,
    `an object call every ${RENEWAL} s`,
    `up to ${number(keys("MAX_SECRETS"))} secrets in memory`,
    `**${REQUESTS_PER_MINUTE} wrong keys per minute`,
  ],
  "docs/guarantees.md": [
    `has read them, within ${AGE} s`,
    `decided within ${WAIT} s whatever happens`,
    `at most ${CALLS} times a second`,
    `no answer within ${CALL} s, or no decision within ${WAIT} s`,
    `within ${HOURS} hours adds one pet`,
    `take effect everywhere within ${FRESH} s`,
    `has waited for ${seconds(MAX_WAIT_MS - client("MIN_CALL_MS"))} to ${WAIT} s`,
    `accepted for up to ${STALE} minutes and ${AGE} seconds`,
    `at most ${MAX_REPLACED_SECRETS} replaced secrets`,
    `After ${REQUESTS_PER_MINUTE} unknown keys in one minute`,
  ],
  "docs/migrations.md": [`old values for ${FRESH} s`],
  "docs/deploying.md": [],
  "docs/clients.md": [],
  "client/README.md": [
    fillGuide("on {{removedAt}}"),
    `\`usage()\` may be ${USAGE} s old`,
    `one of 1 to ${MAX_KEY_LENGTH} visible ASCII characters`,
    `the last ${DAYS_KEPT} days`,
    `For ${HOURS} hours, creations`,
    fillGuide("by default {{defaultLimit}}, with `for await` {{maxLimit}}"),
  ],
  "docs/scale.md": [
    `body ${KIB} KiB`,
    `at most ${client("MAX_CALLS")} calls/s from one isolate`,
    `${number(keys("MAX_SECRETS"))} keys in one isolate`,
    `or 92 if ${number(keys("MAX_CLIENTS"))} keys have`,
    `pages 16.8 (${PAGES} MiB)`,
    `deletes ${records("STEPS_PER_RUN")} × ${number(records("ROWS_PER_STEP"))} records in ${CRON * 60} s`,
    `kept for ${HOURS} h and ${LONGER} to`,
    `| ${number(DELETED)} rows in ${inWords(CRON)} minutes`,
    `one in ${REFRESH} s for each key in use`,
    `${REQUESTS_PER_MINUTE} a minute from one address in one isolate`,
    `| Clients of keys in an isolate | ${number(keys("MAX_CLIENTS"))} |`,
    `older than ${FRESH} s | 0 | 1 each ${seconds(freshness("REVALIDATE_MS"))} s`,
    `less than once in ${AGE} s | 1 in ${REFRESH} s`,
    `or steadily one in ${STEADY} s`,
    `each with less than a request in ${STEADY} s`,
    `less than a request of the key in ${STEADY} s`,
    `renews the lease every ${LEASE} s`,
    `at most ${CALLS} times a second`,
    `deleted ${KEPT_DAYS} to ${KEPT_DAYS + 1} days after`,
    `one cron run from ${records("STEPS_PER_RUN")} to`,
  ],
  "client/src/petstore.ts": [
    fillGuide("on {{removedAt}}"),
    `its last ${DAYS_KEPT} days`,
    `/** 1 to ${MAX_KEY_LENGTH} visible ASCII characters`,
  ],
  "client/src/errors.ts": [`within ${HOURS} hours`],
  "scripts/commands/restore.ts": [`old pages until ${FRESH} s after`],
  "docs/performance.md": [`clients for ${number(keys("MAX_CLIENTS"))} keys`, `read again every ${FRESH} s`],
};

/** Figures that no constant of the service decides: examples, limits of others, constants of a proof or of the client. */
const FOREIGN: Record<string, string[]> = {
  "README.md": ["retry in 19 s"],
  // The example of leases, and what the simulation shows.
  "DESIGN.md": [
    "a round trip of 10 ms",
    "(one a second, 40 ms)",
    "16 more, for 2.9 s",
    "6 more, for 1 s",
    "gets 4 for 1 s",
    "round trips of up to 300 ms",
    "the last one or two seconds",
  ],
  "docs/operating.md": [
    "7 days of Cloudflare's log",
    "in 00:00:16",
    "kept for [7 days]",
    "the last 24 hours",
    "any minute of the last 30 days",
    "ten restores of a database in ten minutes",
  ],
  "docs/guarantees.md": [
    "on all plans, ten minutes",
    "of 50 keys in ten minutes",
    "must stay below 2.5 s",
    "with 5 ms a call",
    "takes 3 ms a call",
    "round trips above 300 ms",
  ],
  "docs/migrations.md": ["cancels a statement after 30 s"],
  "docs/deploying.md": ["the smoke test's 90 s"],
  "client/README.md": ["up to 0.5 s, then 1 s, 2 s, 4 s and 8 s"],
};

/** Sources, and documents full of measured figures and of limits of others, where only the phrases count. */
const OTHERS = [
  "docs/scale.md",
  "docs/performance.md",
  "client/src/petstore.ts",
  "client/src/errors.ts",
  "scripts/commands/restore.ts",
];

const FIGURE =
  /(?<![\w.])(?:\d[\d.,]*(?: to \d+)?|two|three|four|five|six|seven|eight|nine|ten|thirty)[ -](?:ms|s|seconds?|min|minutes?|h|hours?|days?|KiB|MiB|unknown)\b/g;

const read = (document: string) => readFileSync(document, "utf8").replace(/\s+/g, " ");

/** The text with each occurrence of a phrase crossed out. */
const without = (text: string, phrases: string[]) =>
  phrases.reduce((rest, phrase) => rest.replaceAll(phrase, "…"), text);

describe.each(Object.entries(PHRASES))("%s", (document, phrases) => {
  const text = read(document);
  it("has the figures of the code", () => {
    const all = [...phrases, ...(FOREIGN[document] ?? [])];
    expect(all.filter((phrase) => !text.includes(phrase))).toEqual([]);
  });
  if (OTHERS.includes(document)) return;
  it("has no other figures", () => {
    const rest = without(text, [...phrases, ...(FOREIGN[document] ?? [])]);
    const figures = [...rest.matchAll(FIGURE)].map(({ 0: figure, index }) =>
      rest.slice(Math.max(0, index - 50), index + figure.length + 30),
    );
    expect(figures).toEqual([]);
  });
});
