// What the documents say of the code: operations, commands, fields, names and figures. After a change of a constant, each document that
// has its figure fails until it says so, and a new figure fails until its constant is named here.

import { globSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import keys from "../../scripts/commands/keys.ts";
import { stepsOf } from "../../scripts/deploy/smoke-test.ts";
import { MESSAGES } from "../../src/http/messages.ts";
import { OPERATION_IDS, OPERATIONS } from "../../src/http/operations.ts";
import { KEY_POLICY } from "../../src/keys/key.ts";
import { limitsText, PLAN_LIMITS, PLANS, WINDOW_NAMES, WINDOWS } from "../../src/keys/plans.ts";
import { keyIdOf } from "../../src/keys/secret.ts";
import { KeyState } from "../../src/limits/isolate/key-state.ts";
import { DAY_MS, RATE_MS } from "../../src/limits/protocol.ts";
import { fillGuide } from "../../src/openapi/guide.ts";
import { DESCRIPTIONS, type Description } from "../../src/openapi/operations.ts";
import { PET_STATUSES, Pet } from "../../src/pets/schema.ts";

it.each(OPERATION_IDS)("the README has %s with its parameters", (id) => {
  const { method, path } = OPERATIONS[id];
  const start = `| \`${method.toUpperCase()} /v1${path}\``;
  const line = readFileSync("README.md", "utf8")
    .split("\n")
    .find((each) => each.includes(start));
  const { parameters = [] }: Description = DESCRIPTIONS[id];
  const names = parameters.filter((each) => each.in === "query").map(({ name }) => name);
  expect(names.filter((name) => !line?.includes(`\`${name}\``))).toEqual([]);
  expect(line).toBeDefined();
});

it("the rule of src/pets/immutable.ts is told only while no operation changes or deletes pets", () => {
  const changing = OPERATION_IDS.filter((id) => {
    const { method, path } = OPERATIONS[id];
    return path.startsWith("/pets") && method !== "get" && !(method === "post" && path === "/pets");
  });
  const documents = globSync("{*.md,docs/**/*.md,client/*.md,client/src/*.ts,src/openapi/guide.md}").filter(
    (path) => /pets\/immutable\.ts|at\s+(its|the)\s+start\s+exactly\s+once/.test(readFileSync(path, "utf8")),
  );
  expect(documents.length).toBeGreaterThan(2);
  expect(changing.length > 0 ? documents : []).toEqual([]);
});

it("each plan and limit of a command that documents, examples or other commands show exists", () => {
  const files = globSync([
    "{README,CONTRIBUTING}.md",
    "docs/*.md",
    "client/*.md",
    "scripts/*.ts",
    "scripts/{commands,keys,lib,deploy}/**/*.ts",
  ]);
  const shown = files.flatMap((file) => {
    const text = readFileSync(file, "utf8");
    // Placeholders are in capitals.
    const plans = Array.from(text.matchAll(/--plan ([a-z]\w*)/g), ([, plan]) => plan as string);
    const limits = Array.from(text.matchAll(/(--per-\w+ (?!and )\w+[ `]*)+/g), ([options]) =>
      options.match(/(?<=--per-)\w+/g)?.join(),
    );
    return [
      ...plans.filter((plan) => !(PLANS as string[]).includes(plan)).map((plan) => `${file}: --plan ${plan}`),
      ...limits
        .filter((names) => names !== WINDOW_NAMES.join())
        .map((names) => `${file}: limits of ${names}`),
    ];
  });
  expect(files.length).toBeGreaterThan(50);
  expect(shown).toEqual([]);
});

it.each(["README.md", "docs/operating.md"])("%s has each subcommand of keys", (file) => {
  const names = Object.keys(keys.commands ?? {});
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
  expect(secrets.length).toBeGreaterThan(0);
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

const SOURCES = globSync("{src,scripts/{cloudflare,commands,keys,status}}/**/*.ts").map((path) => ({
  path,
  text: readFileSync(path, "utf8"),
}));

/**
 * The value of an expression of constants, also of those that no file exports. If several files have one of this name, the file comes
 * first: `page-cache.MAX_BYTES`.
 */
function evaluate(expression: string): number {
  const numbers = expression.replace(/(?:([\w-]+)\.)?\b([A-Z]\w+)/g, (_, file = "", name) => {
    if (name === "DAY_MS") return `${DAY_MS}`;
    const declaration = new RegExp(`^(?:export )?const ${name} = (.+);$`, "gm");
    const files = SOURCES.filter(({ path }) => path.endsWith(`${file}.ts`));
    const [found, another] = files.flatMap(({ text }) => [...text.matchAll(declaration)]);
    if (found?.[1] === undefined || another) throw new Error(`no constant, or several: ${file} ${name}`);
    return `(${evaluate(found[1])})`;
  });
  return new Function(`return (${numbers})`)();
}

/** The text of a document in one line, with digits. */
function read(document: string): string {
  const words = "two three four five six seven eight nine ten".split(" ");
  return readFileSync(document, "utf8")
    .replace(/\s+/g, " ")
    .replace(new RegExp(`\\b(?:${words.join("|")})\\b`, "g"), (word) => `${words.indexOf(word) + 2}`);
}

const UNITS: Record<string, number> = {
  ...{
    ms: 1,
    s: 1_000,
    second: 1_000,
    min: 60_000,
    minute: 60_000,
    h: 3_600_000,
    hour: 3_600_000,
    day: DAY_MS,
  },
  ...{ KiB: 1_024, MiB: 1_024 ** 2, unknown: 1 },
};
const FIGURE = new RegExp(`(?<![\\w.:])(\\d[\\d.,]*)[ -](${Object.keys(UNITS).join("|")})s?\\b`, "g");

/**
 * The figures of each document, in milliseconds or bytes: a constant, or a number for what no constant of the service decides, such as
 * examples, limits of others and measured values.
 */
const FIGURES: Record<string, string> = {
  "README.md": "KEY_MS, BAN_MS, 10_000",
  "SECURITY.md": "KEY_MS",
  // The example of leases has figures of its own.
  "DESIGN.md": `
    MAX_USAGE_AGE_MS, page-cache.MAX_BYTES, FRESH_MS, MAX_AGE_MS, REFRESH_MS, STALE_IF_ERROR_MS, KEY_MS, REREAD_MS, REQUESTS_PER_MINUTE,
    RATE_MS, FIRST_LEASE_MS, LEASE_MS, MIN_LEASE_MS, FAR_LEASE_MS, 10, 40, 1_000, 800, UNDECIDED_PAUSE_MS, RELEASE_MS, MAX_WAIT_MS,
    USAGE_EVERY_MS, BAN_GRACE_MS, BAN_GRACE_MS - MAX_WAIT_MS, key-reader.DEADLINE_MS, CALL_DEADLINE_MS, RETRY_PAUSE_MS, MAX_BODY_MS`,
  "docs/operating.md": `
    KEY_MS, KEY_MS / 2, STALE_IF_ERROR_MS, MAX_SLOT_WAIT_MS, FRESH_MS, REQUESTS_PER_MINUTE, USAGE_EVERY_MS,
    USAGE_KEPT_DAYS * DAY_MS, details.SHOWN_DAYS * DAY_MS, BANS_COUNTED_DAYS * DAY_MS, EXPIRING_DAYS * DAY_MS, GROWTH_DAYS * DAY_MS,
    BAN_MS, MAX_WAIT_MS, CALL_DEADLINE_MS, statements.DEADLINE_MS, key-reader.DEADLINE_MS,
    300_000, 600_000, 1_200_000, 26 * 3_600_000`,
  "docs/security.md": "REQUESTS_PER_MINUTE, KEY_MS, MAX_BODY_MS, MAX_BODY_BYTES",
  "docs/guarantees.md": `
    600_000, LEASE_MS, FAR_LEASE_MS, 300_000, RELEASE_MS, MAX_AGE_MS, MAX_WAIT_MS, CALL_DEADLINE_MS, 5, 3, REQUESTS_PER_MINUTE, RETENTION_MS, KEY_MS, REVISIONS,
    1_800_000, STALE_IF_ERROR_MS`,
  "docs/migrations.md": "300_000, 30_000",
  "docs/deploying.md": "300_000, 10_000, 90_000",
  "docs/clients.md": "",
  "client/README.md": "RETENTION_MS, 500, 1_000, 2_000, 4_000, 8_000, 10_000, 90_000, 60_000",
};

it.each(Object.entries(FIGURES))("%s has the figures of the code", (document, expressions) => {
  const figures = [...read(document).matchAll(FIGURE)].map(
    ([, digits = "", unit = ""]) => Number(digits.replaceAll(",", "")) * (UNITS[unit] ?? Number.NaN),
  );
  const expected = expressions.split(",").filter((each) => each.trim() !== "");
  expect(new Set(figures)).toEqual(new Set(expected.map(evaluate)));
});

const { free, pro } = PLAN_LIMITS;
/** The longest interval of steady requests that get a first lease, which is short: for more than one request. In seconds. */
const FIRST = longestInterval(evaluate("RATE_MS / FIRST_LEASE_MS - SPARE")).toFixed(1);
/** And of those that get one far from the limit. */
const FAR_INTERVAL = longestInterval(evaluate("FAR_MIN_RECENT")).toFixed(1);
const CONFIGURATION = readFileSync("wrangler.toml", "utf8");
const CRON = Number(/crons = \["\*\/(\d+) \* \* \* \*"\]/.exec(CONFIGURATION)?.[1]);

function longestInterval(leastRecent: number): number {
  for (let intervalMs = RATE_MS; ; intervalMs -= 10) {
    const state = new KeyState(KEY_POLICY, "A", () => 0);
    const arrivals = Array.from({ length: 100 }, (_, index) => index * intervalMs);
    for (const nowMs of arrivals) state.arrive(nowMs);
    const { request } = state.beginCall("request", arrivals.at(-1) ?? 0);
    if (request.recent >= leastRecent) return intervalMs / 1000;
  }
}

/** What else documents say of the code, and where most figures are measured values. Braces have expressions of constants. */
const PHRASES: Record<string, string[]> = {
  "README.md": [
    fillGuide("`limit` ({{minLimit}} to {{maxLimit}}, default {{defaultLimit}})"),
    fillGuide("removed on {{removedAt}}"),
    "`name` (1 to {MAX_NAME_CODE_POINTS} characters)",
    "(1 to {MAX_KEY_LENGTH} visible ASCII characters)",
    `RateLimit-Policy: ${WINDOW_NAMES.map((name) => `"${name}";q=${free[name]};w=${WINDOWS[name]}`).join(", ")}`,
  ],
  "DESIGN.md": [
    "isolate memory, {MAX_KEYS} keys",
    "(less than {LAST_SHARE} is left)",
    "More than max({MIN_TOLERATED_REFUSALS}, {TOLERATED_LIMITS} × the largest limit",
    "(what is left is {FAR} times all recent requests)",
    "from {FAR_MIN_RECENT} recent requests on",
    "at most {LEASE_SHARE} of what is left",
    "an address has {REQUESTS_PER_MINUTE} places a minute",
    "at most {MAX_CALLS} calls a second",
    `a Free key (${free.minute} a minute)`,
    "admits {UNKNOWN_SHARE} of the limit, or one request",
  ],
  "docs/operating.md": [
    "the keys of the last {BATCH} lines",
    "stopped after {REQUESTS_PER_MINUTE} requests in a minute",
    "is {SPARE_IDS} above the highest",
    `active, pro plan, ${limitsText(pro)}, never expires.`,
    `free plan, ${limitsText(free)}, since`,
    ...Object.values(MESSAGES.unauthorized).map((message) => `| \`${message.replace(/:.*/, ": …")}\` |`),
    // When a banned isolate renews the key, which may be this old when it gets it.
    "every {(KEY_MS / 2 - REFRESH_MS) / 1000} to {KEY_MS / 2 / 1000} s",
    "`Retry-After: {RETRY_AFTER_SECONDS}`",
    "`Retry-After: {FULL_RETRY_AFTER_SECONDS}`",
    `Every ${CRON} minutes the cron trigger`,
    "at most {STEPS_PER_RUN * ROWS_PER_STEP} rows a run",
  ],
  "docs/security.md": [
    "{REQUESTS_PER_MINUTE} per minute and address",
    "up to {MAX_SECRETS} secrets in memory",
    "**{REQUESTS_PER_MINUTE} wrong keys a minute",
  ],
  "docs/guarantees.md": [
    "at most {MAX_CALLS} times a second",
    "has waited for {(MAX_WAIT_MS - MIN_CALL_MS) / 1000} to {MAX_WAIT_MS / 1000} s",
    "at most {MAX_REPLACED_SECRETS} replaced secrets",
  ],
  "client/README.md": [
    fillGuide("on {{removedAt}}"),
    "1 to {MAX_KEY_LENGTH} visible ASCII characters",
    fillGuide("`{{idempotentReplayed}}: true`"),
    fillGuide("of {{defaultLimit}} pets by default and at most {{maxLimit}}"),
  ],
  "docs/scale.md": [
    "or 94 if {MAX_KEYS} keys have",
    `deletes {STEPS_PER_RUN} × {ROWS_PER_STEP} records in ${CRON * 60} s`,
    "kept for {RETENTION_MS / 3600000} h and {(ROW_RETENTION_MS - RETENTION_MS) / 60000} to",
    "one in {REFRESH_MS / 1000} s for each key in use",
    "{REQUESTS_PER_MINUTE} a minute from one address in one isolate",
    "| Keys in an isolate | {MAX_KEYS} in use",
    `With less than a request in ${FIRST} s`,
    `less than a request of the key in ${FIRST} s, or in ${FAR_INTERVAL} s`,
    "one cron run from {STEPS_PER_RUN} to",
  ],
  "client/src/petstore.ts": [
    fillGuide("on {{removedAt}}"),
    "its last {DAYS_KEPT} days",
    "repeating it within {RETENTION_MS / 3600000} hours",
  ],
  "client/src/options.ts": [
    "/** 1 to {MAX_KEY_LENGTH} visible ASCII characters",
    "within {RETENTION_MS / 3600000} hours is safe",
  ],
  "client/src/errors.ts": ["within {RETENTION_MS / 3600000} hours"],
  "scripts/commands/restore.ts": ["old pages until {FRESH_MS / 1000} s after"],
};

/** Numbers that documents have in words. */
const SPOKEN: Record<number, string> = {
  0.1: "a tenth",
  0.25: "a quarter",
  0.5: "half",
  1000000: "a million",
};

it.each(Object.entries(PHRASES))("%s says what the code does", (document, phrases) => {
  const filled = phrases.map((phrase) =>
    phrase.replace(/\{(.+?)\}/g, (_, expression) => {
      const value = evaluate(expression);
      return SPOKEN[value] ?? value.toLocaleString("en");
    }),
  );
  const text = read(document);
  expect(filled.filter((phrase) => !text.includes(phrase))).toEqual([]);
});
