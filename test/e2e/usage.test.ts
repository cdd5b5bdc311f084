// npm run usage, with a stand-in for Cloudflare's query API.

import { afterAll, beforeAll, beforeEach, expect, it, vi } from "vitest";
import keysCommand from "../../scripts/keys.ts";
import { queryKeyDays } from "../../scripts/usage/telemetry.ts";
import { daysText, windowsText } from "../../scripts/usage/text.ts";
import usageCommand from "../../scripts/usage.ts";
import { newSecret } from "../../src/keys/secret.ts";
import { DAY_MS } from "../../src/rate-limit/protocol.ts";
import type { UsageBody } from "../../src/rate-limit/usage/usage-body.ts";
import { runCommandInProcess } from "../support/e2e/in-process.ts";
import { ban } from "../support/e2e/petstore.ts";
import { sharedPetstore } from "../support/e2e/shared-petstore.ts";

const petstore = sharedPetstore();
const { newKey, call } = petstore;

function usage(...args: string[]) {
  return runCommandInProcess(usageCommand, args);
}

interface Query {
  timeframe: { from: number; to: number };
  parameters: {
    filters: { key: string; operation: string; value?: string }[];
    groupBys: { value: string }[];
  };
}

/** A stand-in for Cloudflare's query API: filters and counts `log.lines`. */
const log = { lines: [] as Record<string, unknown>[], statistics: {}, isAllowed: true, isValid: true };
let queries: Query[];

function answerQuery(query: Query): Response {
  queries.push(query);
  if (!log.isAllowed) {
    const errors = [{ code: 10_000, message: "Authentication error" }];
    return Response.json({ success: false, errors }, { status: 403 });
  }
  const { timeframe, parameters } = query;
  const found = log.lines.filter(
    ({ timestamp, ...fields }) =>
      Number(timestamp) >= timeframe.from &&
      Number(timestamp) <= timeframe.to &&
      parameters.filters.every(({ key, operation, value }) =>
        operation === "exists" ? fields[key] !== undefined : operation === "eq" && fields[key] === value,
      ),
  );
  const [{ value: field } = { value: "" }] = parameters.groupBys;
  const groups = Map.groupBy(found, (each) => `${each[field]}`);
  const aggregates = [...groups].map(([value, members]) => ({
    value: members.length,
    groups: [{ key: field, value }],
  }));
  const calculations = [{ calculation: "count", alias: "requests", aggregates }];
  const result = log.isValid ? { calculations, statistics: log.statistics } : {};
  return Response.json({ success: true, errors: [], messages: [], result });
}

beforeAll(() => {
  vi.stubEnv("CLOUDFLARE_API_TOKEN", "a-token");
  vi.stubEnv("CLOUDFLARE_ACCOUNT_ID", "an-account");
  const { fetch } = globalThis;
  vi.stubGlobal("fetch", async (url: string, init?: RequestInit) => {
    const isQuery = `${url}`.endsWith("/accounts/an-account/workers/observability/telemetry/query");
    return isQuery ? answerQuery(JSON.parse(`${init?.body}`)) : fetch(url, init);
  });
});
afterAll(() => {
  vi.unstubAllEnvs();
  vi.unstubAllGlobals();
});
beforeEach(() => {
  Object.assign(log, { lines: LINES, statistics: {}, isAllowed: true, isValid: true });
  queries = [];
});

const todayMs = Math.floor(Date.now() / DAY_MS) * DAY_MS;
const dates = [2, 1, 0].map((days) => new Date(todayMs - days * DAY_MS).toISOString().slice(0, 10));
const day = (index: number, admitted = 0, refused = 0, banned = 0) => ({
  date: dates[index],
  admitted,
  refused,
  banned,
});
const stored = (daysAgo: number, keyId: string, fields: object = {}) => ({
  timestamp: todayMs - daysAgo * DAY_MS,
  "$metadata.service": "petstore",
  event: "request",
  keyId,
  plan: "pro",
  window: "minute",
  ...fields,
});
const LINES = [
  ...[1, 2, 3].map(() => stored(0, "key_aaaaaaaaaaaa")),
  stored(0, "key_aaaaaaaaaaaa", { code: "rate_limit_exceeded" }),
  stored(0, "key_aaaaaaaaaaaa", { code: "not_found" }),
  stored(0, "key_aaaaaaaaaaaa", { route: "/v1/usage" }),
  stored(1, "key_aaaaaaaaaaaa", { code: "key_banned" }),
  stored(1, "key_bbbbbbbbbbbb", { timestamp: todayMs - 1 }),
  // Not counted: too old, of another Worker, free, without a valid key, without the limiter, of a cron run.
  stored(3, "key_bbbbbbbbbbbb"),
  stored(0, "key_bbbbbbbbbbbb", { "$metadata.service": "another" }),
  stored(0, "key_cccccccccccc", { route: "/v1/usage" }),
  stored(0, "key_cccccccccccc", { plan: undefined, code: "unauthorized" }),
  stored(0, "key_cccccccccccc", { window: undefined, code: "internal_error" }),
  { timestamp: todayMs, "$metadata.service": "petstore", event: "idempotency_records_deleted", records: 0 },
];

it("counts admitted, refused and banned requests by key and UTC day, the busiest key first", async () => {
  const { stdout, stderr } = await usage("--days", "3", "--json");
  expect(stderr).toBe(
    "Reading Cloudflare's log of the Worker petstore in account an-account\nNext, look at a key: npm run keys -- show ID --remote\n",
  );
  expect(JSON.parse(stdout)).toEqual([
    { keyId: "key_aaaaaaaaaaaa", days: [day(0), day(1, 0, 0, 1), day(2, 4, 1, 0)] },
    { keyId: "key_bbbbbbbbbbbb", days: [day(0), day(1, 1), day(2)] },
  ]);
  expect(queries[0]).toMatchObject({
    view: "calculations",
    dry: true,
    timeframe: { from: todayMs - 2 * DAY_MS, to: todayMs - DAY_MS - 1 },
    parameters: {
      calculations: [{ operator: "count", alias: "requests" }],
      groupBys: [{ type: "string", value: "keyId" }],
    },
  });
  const daysOf = async (keyId: string) => (await queryKeyDays(keyId, 3, Date.now())).days;
  expect(await daysOf("key_bbbbbbbbbbbb")).toEqual([day(0), day(1, 1), day(2)]);
  expect(await daysOf("key_dddddddddddd")).toEqual([day(0), day(1), day(2)]);
});

it("prints a table for each key", async () => {
  const { stdout } = await usage("--days", "3");
  expect(stdout).toBe(`key_aaaaaaaaaaaa: 6 requests

  DATE        ADMITTED #  REFUSED -  BANNED x
  ${dates[0]}           0          0         0
  ${dates[1]}           0          0         1  ${"x".repeat(4)}
  ${dates[2]}           4          1         0  ${"#".repeat(16)}${"-".repeat(4)}

key_bbbbbbbbbbbb: 1 requests

  DATE        ADMITTED #  REFUSED -  BANNED x
  ${dates[0]}           0          0         0
  ${dates[1]}           1          0         0  ${"#".repeat(20)}
  ${dates[2]}           0          0         0
`);
  log.lines = [];
  expect((await usage()).stdout).toBe("No requests with a valid key.\n");
});

it("npm run keys -- show has the counts of the running service, without a request to it", async () => {
  const { id, key } = await newKey("free");
  const show = (...args: string[]) =>
    runCommandInProcess(keysCommand, ["show", id, "--persist-to", petstore.state, ...args]);
  await call("/v1/pets", key);
  const { windows, days } = JSON.parse((await show("--json")).stdout);
  const own = (await (await call("/v1/usage", key)).json()) as UsageBody;
  expect(windows).toEqual({ minute: own.minute, day: own.day });
  expect(windows.day).toMatchObject({ limit: 1_000, used: 1 });
  expect(days).toEqual(own.days.slice(-7));
  expect((await show()).stdout).toMatch(/\n {2}day +1 +1,000 +999 +00:00:00Z, in [^\n]+\n/);
});

it("counts the service's log lines as the service counted the requests", async () => {
  const banned = await newKey("enterprise", { minute: 9, day: 3 });
  const other = await newKey("pro");
  for (const path of ["/v1/pets", "/v1/pets/4711", "/v1/nowhere", "/v1/usage"]) await call(path, other.key);
  await call("/v1/pets", other.key, { method: "DELETE" });
  await call("/v1/pets", other.key, {
    method: "OPTIONS",
    headers: { Origin: "https://shop.example", "Access-Control-Request-Method": "GET" },
  });
  await call("/v1/pets", newSecret());
  await ban(petstore.origin, banned.key);
  for (const { key } of [banned, other]) await call("/v1/usage", key);
  const linesOf = async ({ id }: { id: string }) =>
    (await petstore.logLines()).filter((line) => line.includes(id));
  await vi.waitFor(async () => expect((await linesOf(banned)).at(-1)).toContain("/v1/usage"));
  const requests = (await linesOf(banned)).length - 1;

  const fields = { timestamp: Date.now(), "$metadata.service": "petstore" };
  log.lines = (await petstore.logLines()).map((line) => ({ ...fields, ...JSON.parse(line) }));
  const counted = await Promise.all([banned, other].map(({ id }) => queryKeyDays(id, 1, Date.now())));
  const own = await Promise.all(
    [banned, other].map(async ({ key }) => (await (await call("/v1/usage", key)).json()) as UsageBody),
  );
  const [ownDay, otherDay] = own.map(({ days }) => days.at(-1));
  expect(otherDay).toMatchObject({ admitted: 4, refused: 0 });
  // The request that starts a ban is "refused" in the usage of the key, and "banned" in the log.
  const refused = (ownDay?.refused ?? 0) - 1;
  expect(counted.map(({ days }) => days[0])).toMatchObject([
    { admitted: 3, refused, banned: requests - 3 - refused },
    { admitted: 4, refused: 0, banned: 0 },
  ]);
});

it("warns if Cloudflare sampled the log", async () => {
  log.statistics = { abr_level: 10 };
  const { stdout, stderr } = await usage();
  expect(stderr).toMatch(/^These counts are not exact: /m);
  expect(stdout).toMatch(/^key_aaaaaaaaaaaa: 6 requests\n/);
});

it("reports a missing permission and an unexpected result", async () => {
  log.isAllowed = false;
  expect((await usage()).stderr).toMatch(
    /\nerror: Cloudflare's API refused: Authentication error \(10000\); CLOUDFLARE_API_TOKEN needs the permission/,
  );
  Object.assign(log, { isAllowed: true, isValid: false });
  const { exitCode, stdout, stderr } = await usage();
  expect([exitCode, stdout]).toEqual([1, ""]);
  expect(stderr).toContain("error: Cloudflare's API returned something other than a query result\n");
});

it.each([
  ["more days than Cloudflare keeps", ["--days", "8"], "It must be an integer from 1 to 7"],
  ["a key", ["pet_abc"], "too many arguments"],
])("rejects %s", async (_, args, problem) => {
  const outcome = await usage(...args);
  expect([outcome.exitCode, outcome.stdout]).toEqual([2, ""]);
  expect(outcome.stderr).toContain(problem);
});

// npm run keys -- show prints both texts.
it("the texts fit into 80 columns, and show the smallest counts", () => {
  const nowMs = Date.parse("2026-11-22T11:36:41Z");
  const counts = { limit: 1_000_000_000, used: 1_000_000_000, remaining: 0 };
  const minute = { ...counts, reset: nowMs / 1000 + 19 };
  const day = { ...counts, reset: nowMs / 1000 + 44_599 };
  expect(windowsText({ minute, day }, nowMs).split("\n")).toEqual([
    "                   USED          LIMIT  LEFT  RESETS",
    "  minute  1,000,000,000  1,000,000,000     0  11:37:00Z, in 00:00:19",
    "  day     1,000,000,000  1,000,000,000     0  00:00:00Z, in 12:23:19",
  ]);
  const days = [
    { date: "2026-11-20", admitted: 0, refused: 0 },
    { date: "2026-11-21", admitted: 750_000_000, refused: 250_000_000 },
    { date: "2026-11-22", admitted: 999_999_999, refused: 1 },
  ];
  expect(daysText(days).split("\n")).toEqual([
    "  DATE         ADMITTED #    REFUSED -",
    "  2026-11-20            0            0",
    `  2026-11-21  750,000,000  250,000,000  ${"#".repeat(15)}${"-".repeat(5)}`,
    `  2026-11-22  999,999,999            1  ${"#".repeat(20)}-`,
  ]);
  const largest = daysText([{ date: "2026-11-22", admitted: 1e9, refused: 1e9, banned: 1e9 }]);
  expect(Math.max(...largest.split("\n").map(({ length }) => length))).toBeLessThanOrEqual(80);
});
