// npm run usage with a running service, and with Cloudflare's log. Cloudflare's query API is a stand-in.

import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { queryKeyDays } from "../../scripts/usage/telemetry.ts";
import { keyText, logText } from "../../scripts/usage/text.ts";
import usageCommand from "../../scripts/usage.ts";
import { MESSAGES } from "../../src/http/messages.ts";
import { newSecret } from "../../src/keys/secret.ts";
import type { UsageBody } from "../../src/rate-limit/usage/usage-body.ts";
import { runCommandInProcess } from "../support/e2e/in-process.ts";
import { writePastDays } from "../support/e2e/past-days.ts";
import { ban, type Outcome, UNUSED_ORIGIN } from "../support/e2e/petstore.ts";
import { sharedPetstore } from "../support/e2e/shared-petstore.ts";

// For slow machines.
vi.setConfig({ testTimeout: 120_000 });

const DAY_MS = 86_400_000;

/** A Sunday. */
const NOW_MS = Date.parse("2026-11-22T11:36:41Z");

const petstore = sharedPetstore({ WRANGLER_LOG: "log" });
const { newKey, call } = petstore;

function usage(args: string[], key = "", stdin = ""): Promise<Outcome> {
  return runCommandInProcess(usageCommand, args, { stdin, env: { PETSTORE_KEY: key } });
}

async function listen(listener: RequestListener) {
  const server = createServer(listener).listen(0, "127.0.0.1");
  await once(server, "listening");
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, close: () => server.close() };
}

/** Starts a server for the current test. */
async function serve(listener: RequestListener): Promise<string> {
  const { url, close } = await listen(listener);
  onTestFinished(() => void close());
  return url;
}

/** Empty standard output, and one line on standard error after those that announce work. */
function expectFailure(exitCode: number, outcome: Outcome, problem: string | RegExp): void {
  expect([outcome.exitCode, outcome.stdout]).toEqual([exitCode, ""]);
  const lines = outcome.stderr.split("\n").filter((line) => !/^(Asking|Reading) |^$/.test(line));
  expect(lines).toHaveLength(1);
  expect(lines[0]).toMatch(/^error: /);
  expect(lines[0]?.slice("error: ".length)).toMatch(problem);
}

describe("npm run usage -- --key", () => {
  it("shows the windows and the last days of a key, and only its last four characters", async () => {
    const { key } = await newKey("enterprise", "--per-minute", "1200", "--per-day", "5");
    for (let request = 0; request < 7; request += 1) await call("/v1/pets", key);
    await writePastDays(petstore.service, petstore.state, [{ admitted: 1000, refused: 250 }], Date.now());
    const { stdout, stderr, exitCode } = await usage(["--key", key, "--url", `${petstore.origin}/v1`]);
    expect([exitCode, stderr]).toEqual([0, `Asking the service at ${petstore.origin}\n`]);
    const lines = stdout.split("\n");
    expect(lines.slice(0, 3)).toEqual([
      `Key …${key.slice(-4)}, enterprise plan`,
      "",
      "          USED  LIMIT   LEFT  RESETS",
    ]);
    expect(lines[3]).toMatch(/^ {2}minute {5}\d {2}1,200 {2}1,\d{3} {2}\d\d:\d\d:00Z, in \d+ s$/);
    expect(lines[4]).toMatch(/^ {2}day {8}5 {6}5 {6}0 {2}00:00:00Z, in (\d+ h )?\d+ min( \d+ s)?$/);
    const days = lines.slice(6, -1);
    expect(days[0]).toBe("  DATE        ADMITTED #  REFUSED -");
    const dates = [6, 5, 4, 3, 2, 1, 0].map((days) => new Date(Date.now() - days * DAY_MS).toISOString());
    expect(days.slice(1).map((line) => line.slice(2, 12))).toEqual(dates.map((date) => date.slice(0, 10)));
    expect(days[6]).toMatch(/ {2}1,000 {8}250 {2}#{33}-{8}$/);
    expect(days[7]).toMatch(/ {2}5 {10}2 {2}#-$/);
    expect(stdout).not.toContain(key.slice(0, -4));
  });

  it("shows bans, and several keys from arguments and standard input", async () => {
    const banned = await newKey("enterprise", "--per-minute", "9", "--per-day", "1");
    const other = await newKey("pro");
    await ban(petstore.origin, banned.key);
    const args = ["--key", "-", "--key", banned.key, "--url", petstore.origin];
    const { stdout, exitCode } = await usage(args, "", `\n ${other.key} \r\n${banned.key}\n`);
    expect(exitCode).toBe(0);
    const headings = stdout.split("\n").filter((line) => line.startsWith("Key "));
    expect(headings.map((line) => line.slice(0, 9))).toEqual(
      [other, banned].map(({ key }) => `Key …${key.slice(-4)}`),
    );
    expect(stdout.match(/BANNED until \d\d:\d\d:\d\dZ, in \d+ min \d+ s/g)).toHaveLength(1);

    const all = await usage(["--key", banned.key, "--url", petstore.origin, "--days", "30", "--json"]);
    const [{ lastFour, plan, bannedUntil, days, ...rest }] = JSON.parse(all.stdout);
    expect([lastFour, plan, days.length]).toEqual([banned.key.slice(-4), "enterprise", 30]);
    expect(bannedUntil * 1000).toBeGreaterThan(Date.now());
    expect(rest).toMatchObject({ minute: { limit: 9 }, day: { limit: 1, used: 1, remaining: 0 } });
    expect(days.at(-1).admitted).toBe(1);
    expect(days.at(-1).refused).toBeGreaterThan(180);
  });

  it("uses the key in PETSTORE_KEY unless --key is given", async () => {
    const { key } = await newKey("pro");
    const args = ["--url", petstore.origin, "--days", "1", "--json"];
    const { stdout } = await usage(args, key);
    expect(JSON.parse(stdout)).toMatchObject([{ lastFour: key.slice(-4), days: [{ admitted: 0 }] }]);
    const other = await newKey("pro");
    expect(JSON.parse((await usage([...args, "--key", other.key], key)).stdout)).toMatchObject([
      { lastFour: other.key.slice(-4) },
    ]);
  });

  it("reports the service's error for a key, without the key", async () => {
    const { key } = await newKey("pro");
    const unknown = newSecret();
    expectFailure(
      1,
      await usage(["--key", key, "--key", unknown, "--url", petstore.origin]),
      `the service refused the key ending in ${unknown.slice(-4)} with 401: ${MESSAGES.unauthorized.unknown}`,
    );
  });

  it("reports an address without the petstore, and follows no redirect with a key", async () => {
    const key = newSecret();
    expectFailure(
      1,
      await usage(["--key", key, "--url", UNUSED_ORIGIN]),
      `can't reach ${UNUSED_ORIGIN} (ECONNREFUSED)`,
    );
    const seen: (string | undefined)[] = [];
    const elsewhere = await serve((request, response) => {
      seen.push(request.url);
      response.end("{}");
    });
    const answers: [number, string, Record<string, string>?][] = [
      [200, "<!doctype html><title>Welcome</title>"],
      [200, `{"plan":"free","days":[]}`],
      [200, `{"message":"hello"}`],
      [502, "<h1>Bad gateway</h1>"],
      [307, "", { Location: elsewhere }],
    ];
    const url = await serve((_, response) => {
      const [status, body, headers = {}] = answers.shift() ?? [500, ""];
      response.writeHead(status, headers).end(body);
    });
    for (const [status] of [...answers]) {
      const outcome = await usage(["--key", key, "--url", url]);
      expectFailure(1, outcome, `${url} is not the petstore: unexpected response with status ${status}`);
    }
    expect([answers, seen]).toEqual([[], []]);
  });
});

describe("npm run usage -- --remote", () => {
  interface Query {
    queryId: string;
    timeframe: { from: number; to: number };
    parameters: {
      filters: { key: string; operation: string; value?: string }[];
      groupBys: { value: string }[];
    };
  }

  /** A stand-in for the query API: filters and counts `log.lines`. */
  const log = { lines: [] as Record<string, unknown>[], statistics: {}, isAllowed: true, isValid: true };
  let queries: Query[];
  let close: () => void;

  // One server for all tests, because a process remembers its account.
  beforeAll(async () => {
    const server = await listen(async (request, response) => {
      const reply = (status: number, body: object) => response.writeHead(status).end(JSON.stringify(body));
      if (request.headers.authorization !== "Bearer a-token" || !log.isAllowed)
        return reply(403, { success: false, errors: [{ code: 10_000, message: "Authentication error" }] });
      if (request.url !== "/client/v4/accounts/an-account/workers/observability/telemetry/query")
        return reply(404, { success: false, errors: [{ code: 7003, message: "Could not route" }] });
      const query = JSON.parse(await text(request)) as Query;
      queries.push(query);
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
        count: members.length,
        interval: 0,
        sampleInterval: 1,
        groups: [{ key: field, value }],
      }));
      const calculations = [{ calculation: "count", alias: "requests", aggregates, series: [] }];
      const result = log.isValid ? { calculations, statistics: log.statistics } : {};
      reply(200, { success: true, errors: [], messages: [], result });
    });
    close = server.close;
    vi.stubEnv("CLOUDFLARE_API_BASE_URL", `${server.url}/client/v4`);
    vi.stubEnv("CLOUDFLARE_API_TOKEN", "a-token");
    vi.stubEnv("CLOUDFLARE_ACCOUNT_ID", "an-account");
  });
  afterAll(() => {
    vi.unstubAllEnvs();
    close();
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
    const { stdout, stderr } = await usage(["--remote", "--days", "3", "--json"]);
    expect(stderr).toBe(
      "Reading Cloudflare's log of the Worker petstore in the account an-account\nNext, look at a key: npm run keys -- show ID --remote\n",
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
  });

  it("prints a table for each key", async () => {
    const { stdout } = await usage(["--remote", "--days", "3"]);
    expect(stdout).toBe(`key_aaaaaaaaaaaa: 6 requests

  DATE        ADMITTED #  REFUSED -  BANNED x
  ${dates[0]}           0          0         0
  ${dates[1]}           0          0         1  ${"x".repeat(6)}
  ${dates[2]}           4          1         0  ${"#".repeat(24)}${"-".repeat(6)}

key_bbbbbbbbbbbb: 1 requests

  DATE        ADMITTED #  REFUSED -  BANNED x
  ${dates[0]}           0          0         0
  ${dates[1]}           1          0         0  ${"#".repeat(31)}
  ${dates[2]}           0          0         0
`);
    log.lines = [];
    expect((await usage(["--remote"])).stdout).toBe("No requests with a valid key.\n");
  });

  it("counts one key, also without requests, for npm run keys", async () => {
    const days = (keyId: string) => queryKeyDays(keyId, 3, Date.now());
    expect(await days("key_bbbbbbbbbbbb")).toEqual({
      days: [day(0), day(1, 1), day(2)],
      isIncomplete: false,
    });
    expect((await days("key_dddddddddddd")).days).toEqual([day(0), day(1), day(2)]);
  });

  it("counts the service's log lines as the service counted the requests", async () => {
    const banned = await newKey("enterprise", "--per-minute", "9", "--per-day", "3");
    const other = await newKey("pro");
    const lines = () => petstore.service.printed().match(/^\{.*$/gm) ?? [];
    for (const path of ["/v1/pets", "/v1/pets/4711", "/v1/nowhere", "/v1/usage"]) await call(path, other.key);
    await call("/v1/pets", other.key, { method: "DELETE" });
    await call("/v1/pets", other.key, {
      method: "OPTIONS",
      headers: { Origin: "https://shop.example", "Access-Control-Request-Method": "GET" },
    });
    await call("/v1/pets", newSecret());
    await ban(petstore.origin, banned.key);
    for (const { key } of [banned, other]) await call("/v1/usage", key);
    const linesOf = ({ id }: { id: string }) => lines().filter((line) => line.includes(id));
    await vi.waitFor(() => expect(linesOf(banned).at(-1)).toContain("/v1/usage"));
    const requests = linesOf(banned).length - 1;

    const fields = { timestamp: Date.now(), "$metadata.service": "petstore" };
    log.lines = lines().map((line) => ({ ...fields, ...JSON.parse(line) }));
    const counted = await Promise.all([banned, other].map(({ id }) => queryKeyDays(id, 1, Date.now())));
    const args = [banned, other].flatMap(({ key }) => ["--key", key]);
    const own = JSON.parse(
      (await usage([...args, "--url", petstore.origin, "--days", "1", "--json"])).stdout,
    );
    const [ownDay, otherDay] = own.map(({ days }: UsageBody) => days[0]);
    expect(otherDay).toMatchObject({ admitted: 4, refused: 0 });
    // The request that starts a ban is "refused" in the usage of the key, and "banned" in the log.
    const refused = ownDay.refused - 1;
    expect(counted.map(({ days }) => days[0])).toMatchObject([
      { admitted: 3, refused, banned: requests - 3 - refused },
      { admitted: 4, refused: 0, banned: 0 },
    ]);
  });

  it("warns if Cloudflare sampled the log", async () => {
    log.statistics = { abr_level: 10 };
    const { stdout, stderr } = await usage(["--remote"]);
    expect(stderr).toMatch(/^These counts are not exact: /m);
    expect(stdout).toMatch(/^key_aaaaaaaaaaaa: 6 requests\n/);
  });

  it("reports a missing permission and an unexpected result", async () => {
    log.isAllowed = false;
    expectFailure(
      1,
      await usage(["--remote"]),
      /^Cloudflare's API refused: Authentication error \(10000\); CLOUDFLARE_API_TOKEN needs the permission/,
    );
    Object.assign(log, { isAllowed: true, isValid: false });
    expectFailure(
      1,
      await usage(["--remote"]),
      "Cloudflare's API returned something other than a query result",
    );
  });
});

describe("npm run usage rejects", () => {
  const key = newSecret();
  const mistyped = `${key.slice(0, -1)}!`;
  const service = ["--key", key];
  it.each([
    ["no source", [], "add --key KEY or --remote after npm run usage --, or set"],
    ["two sources", [...service, "--remote"], "'--remote' cannot be used with option '--key <key>'"],
    ["an address with --remote", ["--remote", "--url", UNUSED_ORIGIN], "cannot be used with option '--url"],
    ["a mistyped key", ["--key", mistyped], /^the key is malformed: /],
    ["an id instead of a key", [...service, "--key", "key_0123456789Ab"], /^key number 2 is malformed: /],
    ["a key without --key", [key], "too many arguments"],
    ["too many days", [...service, "--days", "31"], "It must be an integer from 1 to 30"],
    [
      "more days than Cloudflare keeps",
      ["--remote", "--days", "8"],
      "--days must be at most 7 with --remote",
    ],
    ["an invalid URL", [...service, "--url", "localhost:8787"], "It must be the address of the service"],
    ["an unknown option", ["--kye", key], "(Did you mean --key?)"],
    ["standard input without a key", ["--key", "-"], "standard input has no key: give one per line"],
  ])("%s", async (_, args, problem) => {
    const outcome = await usage(args, "", "\n\n");
    expectFailure(2, outcome, problem);
    expect(outcome.stderr).not.toContain(key.slice(5, -5));
  });
});

describe("the text", () => {
  const body: UsageBody = {
    plan: "enterprise",
    minute: { limit: 1_000_000_000, used: 1_000_000_000, remaining: 0, reset: NOW_MS / 1000 + 19 },
    day: { limit: 1_000_000_000, used: 1_000_000_000, remaining: 0, reset: NOW_MS / 1000 + 44_599 },
    bannedUntil: NOW_MS / 1000 + 552,
    days: [
      { date: "2026-11-21", admitted: 1_000_000_000, refused: 0 },
      { date: "2026-11-22", admitted: 999_999_999, refused: 1 },
    ],
  };

  it("fits into 80 columns, and shows the smallest counts", () => {
    const parts = { admitted: 999_999_998, refused: 1, banned: 1 };
    const log = logText([{ keyId: "key_aaaaaaaaaaaa", days: [{ date: "2026-11-22", ...parts }] }]);
    for (const line of [keyText("abcd", body, NOW_MS), log].flatMap((each) => each.split("\n"))) {
      expect(line.length).toBeLessThanOrEqual(80);
    }
    expect(keyText("abcd", body, NOW_MS).split("\n").slice(1)).toEqual([
      "  BANNED until 11:45:53Z, in 9 min 12 s",
      "",
      "                   USED          LIMIT  LEFT  RESETS",
      "  minute  1,000,000,000  1,000,000,000     0  11:37:00Z, in 19 s",
      "  day     1,000,000,000  1,000,000,000     0  00:00:00Z, in 12 h 23 min",
      "",
      "  DATE           ADMITTED #  REFUSED -",
      `  2026-11-21  1,000,000,000          0  ${"#".repeat(39)}`,
      `  2026-11-22    999,999,999          1  ${"#".repeat(38)}-`,
    ]);
    expect(log).toMatch(/ {2}#{29}-x$/);
  });

  it("scales the bars to the busiest day, and draws none for a day without requests", () => {
    const days = [
      { date: "2026-11-20", admitted: 0, refused: 0 },
      { date: "2026-11-21", admitted: 300, refused: 100 },
      { date: "2026-11-22", admitted: 100, refused: 0 },
    ];
    const bars = keyText("abcd", { ...body, days }, NOW_MS)
      .split("\n")
      .slice(-3);
    expect(bars).toEqual([
      "  2026-11-20           0          0",
      `  2026-11-21         300        100  ${"#".repeat(31)}${"-".repeat(10)}`,
      `  2026-11-22         100          0  ${"#".repeat(10)}`,
    ]);
  });
});
