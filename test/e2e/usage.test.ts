// npx petstore usage, with a stand-in for Cloudflare's query API.

import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { queryKeyDays } from "../../scripts/usage/telemetry.ts";
import { daysText, windowsText } from "../../scripts/usage/text.ts";
import { DAY_MS } from "../../src/keys/protocol.ts";
import { newKeyId, newSecret } from "../../src/keys/secret.ts";
import type { UsageBody } from "../../src/keys/usage/usage-body.ts";
import { runPetstore } from "../support/e2e/in-process.ts";
import { sharedPetstore } from "../support/e2e/shared-petstore.ts";

const petstore = sharedPetstore();
const { newKey, call } = petstore;

function usage(...args: string[]) {
  return runPetstore(["usage", ...args]);
}

interface Query {
  timeframe: { from: number; to: number };
  parameters: {
    filters: { key: string; operation: string; value?: string }[];
    groupBys: { value: string }[];
  };
}

type Line = Record<string, unknown>;

/** The result of a query in Cloudflare's API: counts the lines that match all filters. */
function resultOf({ timeframe, parameters }: Query, lines: Line[]) {
  const found = lines.filter(
    ({ timestamp, ...fields }) =>
      Number(timestamp) >= timeframe.from &&
      Number(timestamp) <= timeframe.to &&
      parameters.filters.every(({ key, operation, value }) =>
        operation === "exists" ? fields[key] !== undefined : operation === "eq" && fields[key] === value,
      ),
  );
  const [{ value: key } = { value: "" }] = parameters.groupBys;
  const groups = [...Map.groupBy(found, (each) => `${each[key]}`)];
  const aggregates = groups.map(([value, { length }]) => ({ value: length, groups: [{ key, value }] }));
  return { calculations: [{ calculation: "count", alias: "requests", aggregates }] };
}

/** Answers queries. Each test may set another. */
let answer: (query: Query) => object;
const answerWith = (lines: Line[]) => (query: Query) => ({ success: true, result: resultOf(query, lines) });

beforeEach(() => {
  answer = answerWith(LINES);
  vi.stubEnv("CLOUDFLARE_API_TOKEN", "a-token");
  vi.stubEnv("CLOUDFLARE_ACCOUNT_ID", "an-account");
  const { fetch } = globalThis;
  vi.stubGlobal("fetch", async (url: string, init?: RequestInit) => {
    const isQuery = `${url}`.endsWith("/accounts/an-account/workers/observability/telemetry/query");
    return isQuery ? Response.json(answer(JSON.parse(`${init?.body}`))) : fetch(url, init);
  });
});
afterEach(() => {
  vi.unstubAllEnvs();
  vi.unstubAllGlobals();
});

const todayMs = Math.floor(Date.now() / DAY_MS) * DAY_MS;
const dates = [2, 1, 0].map((days) => new Date(todayMs - days * DAY_MS).toISOString().slice(0, 10));
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
  const asked = vi.fn(answerWith(LINES));
  answer = asked;
  expect((await usage("--days", "3")).stdout).toBe(`key_aaaaaaaaaaaa: 6 requests

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
  expect(asked.mock.calls[0]).toMatchObject([
    {
      view: "calculations",
      dry: true,
      timeframe: { from: todayMs - 2 * DAY_MS, to: todayMs - DAY_MS - 1 },
      parameters: {
        calculations: [{ operator: "count", alias: "requests" }],
        groupBys: [{ type: "string", value: "keyId" }],
      },
    },
  ]);

  const empty = dates.map((date) => ({ date, admitted: 0, refused: 0, banned: 0 }));
  const days = [empty[0], { ...empty[1], admitted: 1 }, empty[2]];
  const json = JSON.parse((await usage("--days", "3", "--json")).stdout);
  expect(json).toEqual([expect.anything(), { keyId: "key_bbbbbbbbbbbb", days }]);
  expect((await queryKeyDays("key_bbbbbbbbbbbb", 3, Date.now())).days).toEqual(days);
  expect((await queryKeyDays("key_dddddddddddd", 3, Date.now())).days).toEqual(empty);
  answer = answerWith([]);
  expect((await usage()).stdout).toBe("No requests with a valid key.\n");
});

it("npx petstore keys show has the counts of the running service, without a request to it", async () => {
  const { id, key } = await newKey("free");
  const show = (...args: string[]) =>
    runPetstore(["keys", "show", id, "--persist-to", petstore.state, ...args]);
  await call("/v1/pets", key);
  const { windows, days } = JSON.parse((await show("--json")).stdout);
  const own = (await (await call("/v1/usage", key)).json()) as UsageBody;
  expect(windows).toEqual({ minute: own.minute, day: own.day });
  expect(windows.day).toMatchObject({ limit: 1_000, used: 1 });
  expect(days).toEqual(own.days.slice(-7));
  expect((await show()).stdout).toMatch(/\n {2}day +1 +1,000 +999 +00:00:00Z, in [^\n]+\n/);
});

it("counts the service's log lines as the service counted the requests", async () => {
  const { id, key } = await newKey("enterprise", { minute: 9, day: 3 });
  const preflight = { Origin: "https://shop.example", "Access-Control-Request-Method": "GET" };
  await call("/v1/pets", key, { method: "OPTIONS", headers: preflight });
  await call("/v1/pets", newSecret(newKeyId()));
  let requests = 0;
  let body = "";
  // The first three are admitted. Refusals for more than two seconds lead to a ban.
  for (; !body.includes("key_banned"); requests += 1) body = await (await call("/v1/nowhere", key)).text();
  await call("/v1/pets", key);
  const fields = { timestamp: Date.now(), "$metadata.service": "petstore" };
  const refused = requests - 4;
  // Counts and lines can come after their response. The log is long, because all files share the service.
  const patience = { timeout: 10_000, interval: 500 };
  await vi.waitFor(async () => {
    const own = (await (await call("/v1/usage", key)).json()) as UsageBody;
    const lines = (await petstore.logLines()).map((line) => ({ ...fields, ...JSON.parse(line) }));
    answer = answerWith(lines);
    const { days } = await queryKeyDays(id, 1, Date.now());
    expect(own.days.at(-1)).toMatchObject({ admitted: 3, refused });
    expect(days).toMatchObject([{ admitted: 3, refused, banned: 2 }]);
  }, patience);
});

it("warns if Cloudflare sampled the log", async () => {
  answer = (query) => ({
    success: true,
    result: { ...resultOf(query, LINES), statistics: { abr_level: 10 } },
  });
  const { stdout, stderr } = await usage();
  expect(stderr).toMatch(/^These counts are not exact: /m);
  expect(stdout).toMatch(/^key_aaaaaaaaaaaa: 6 requests\n/);
});

it.each([
  [
    { success: false, errors: [{ code: 10_000, message: "Authentication error" }] },
    "Cloudflare's API refused: Authentication error (10000); CLOUDFLARE_API_TOKEN needs the permission ",
  ],
  [{ success: true, result: {} }, "Cloudflare's API returned something other than a query result\n"],
])("reports the answer %j", async (given, problem) => {
  answer = () => given;
  const { exitCode, stdout, stderr } = await usage();
  expect([exitCode, stdout]).toEqual([1, ""]);
  expect(stderr).toContain(`\nerror: ${problem}`);
});

// npx petstore keys show prints both texts.
it("the texts of the largest counts fit into 80 columns, and a bar shows the smallest", () => {
  const nowMs = Date.parse("2026-11-22T11:36:41Z");
  const counts = { limit: 1_000_000_000, used: 1_000_000_000, remaining: 0 };
  const minute = { ...counts, reset: nowMs / 1000 + 19 };
  const day = { ...counts, reset: nowMs / 1000 + 44_599 };
  expect(windowsText({ minute, day }, nowMs)).toBe(`\
                   USED          LIMIT  LEFT  RESETS
  minute  1,000,000,000  1,000,000,000     0  11:37:00Z, in 00:00:19
  day     1,000,000,000  1,000,000,000     0  00:00:00Z, in 12:23:19`);
  expect(daysText([{ date: "2026-11-22", admitted: 1e9, refused: 1e9, banned: 1 }])).toBe(`\
  DATE           ADMITTED #      REFUSED -  BANNED x
  2026-11-22  1,000,000,000  1,000,000,000         1  ${"#".repeat(10)}${"-".repeat(10)}x`);
});
