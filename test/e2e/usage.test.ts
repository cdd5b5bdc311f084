// npm run usage with each of its sources. Cloudflare's query API is a stand-in.

import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { dirname, join } from "node:path";
import { text } from "node:stream/consumers";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import type { LoggedKey } from "../../scripts/usage/log.ts";
import { keyText, logText } from "../../scripts/usage/text.ts";
import { usage as usageCommand } from "../../scripts/usage.ts";
import { MESSAGES } from "../../src/http/messages.ts";
import { newSecret } from "../../src/keys/secret.ts";
import type { UsageBody } from "../../src/rate-limit/usage/usage-body.ts";
import { runInProcess } from "../support/e2e/in-process.ts";
import { writePastDays } from "../support/e2e/past-days.ts";
import { ban, npmRun, type Outcome, runScript, UNUSED_ORIGIN } from "../support/e2e/petstore.ts";
import { sharedPetstore } from "../support/e2e/shared-petstore.ts";

// For slow machines.
vi.setConfig({ testTimeout: 120_000 });

const DAY_MS = 86_400_000;

/** A Sunday. */
const NOW_MS = Date.parse("2026-11-22T11:36:41Z");

const petstore = sharedPetstore({ WRANGLER_LOG: "log" });
const { newKey, call } = petstore;

async function usage(args: string[], key = ""): Promise<Outcome> {
  vi.stubEnv("PETSTORE_KEY", key);
  try {
    return await runInProcess("usage", usageCommand, args);
  } finally {
    vi.unstubAllEnvs();
  }
}

/** With --remote, in a process of its own: a process remembers its account. */
function remoteUsage(args: string[], environment: NodeJS.ProcessEnv): Promise<Outcome> {
  return runScript("scripts/usage.ts", ["--remote", ...args], environment);
}

/** With standard input. */
function usageOf(input: string, args: string[]): Outcome {
  const options = { input, encoding: "utf8" } as const;
  const { status, stdout, stderr } = spawnSync(process.execPath, ["scripts/usage.ts", ...args], options);
  return { exitCode: status ?? Number.NaN, stdout, stderr };
}

/** Writes a temporary file. */
async function file(name: string, contents: string): Promise<string> {
  const path = join(dirname(petstore.state), name);
  await writeFile(path, contents);
  return path;
}

/** Starts a server for the current test. */
async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Exit code 1, empty standard output, and one line on standard error. */
function expectFailure({ exitCode, stdout, stderr }: Outcome, problem: string | RegExp): void {
  expect([exitCode, stdout]).toEqual([1, ""]);
  expect(stderr).toMatch(/^[^\n]+\n$/);
  expect(stderr).toMatch(problem);
}

describe("npm run usage -- --key", () => {
  it("shows the windows and the last days of a key, and only its last four characters", async () => {
    const { key } = await newKey("enterprise", "--per-minute", "1200", "--per-day", "5");
    for (let request = 0; request < 7; request += 1) await call("/v1/pets", key);
    await writePastDays(petstore.service, petstore.state, [{ admitted: 1000, refused: 250 }], Date.now());
    // With npm, which would print its arguments at another log level.
    const { stdout, stderr, exitCode } = await npmRun("usage", [
      "--key",
      key,
      "--url",
      `${petstore.origin}/v1`,
    ]);
    expect([exitCode, stderr]).toEqual([0, ""]);
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
    const { stdout, exitCode } = usageOf(`\n ${other.key} \r\n${banned.key}\n`, args);
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

  it("uses the key in PETSTORE_KEY unless another source is given", async () => {
    const { key } = await newKey("pro");
    const args = ["--url", petstore.origin, "--days", "1", "--json"];
    const { stdout } = await usage(args, key);
    expect(JSON.parse(stdout)).toMatchObject([{ lastFour: key.slice(-4), days: [{ admitted: 0 }] }]);
    const log = await file("empty.json", "");
    expect((await usage(["--log", log], key)).stdout).toBe("No requests with a valid key.\n");
  });

  it("reports the service's error for a key, without the key", async () => {
    const { key } = await newKey("pro");
    const unknown = newSecret();
    expectFailure(
      await usage(["--key", key, "--key", unknown, "--url", petstore.origin]),
      `usage failed: the service refused the key ending in ${unknown.slice(-4)} with 401: ${MESSAGES.unauthorized.unknown}`,
    );
  });

  it("reports an address without the petstore, and follows no redirect with a key", async () => {
    const key = newSecret();
    expectFailure(
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
      expectFailure(outcome, `${url} is not the petstore: unexpected response with status ${status}`);
    }
    expect([answers, seen]).toEqual([[], []]);
  });
});

describe("npm run usage -- --log", () => {
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
    const log = await file("service.json", `${lines().join("\n")}\n`);

    const { stdout, stderr } = await usage(["--log", log, "--date", "2026-02-28", "--json"]);
    expect(stderr).toBe("");
    const counted = [banned, other].map(({ id }) => {
      const { days } = (JSON.parse(stdout) as LoggedKey[]).find(({ keyId }) => keyId === id) ?? {};
      return days;
    });
    const args = [banned, other].flatMap(({ key }) => ["--key", key]);
    const own = JSON.parse(
      (await usage([...args, "--url", petstore.origin, "--days", "1", "--json"])).stdout,
    );
    const [ownDay, otherDay] = own.map(({ days }: UsageBody) => days[0]);
    expect(otherDay).toMatchObject({ admitted: 4, refused: 0 });
    // The request that starts a ban is "refused" in the usage of the key, and "banned" in the log.
    const refused = ownDay.refused - 1;
    expect(counted).toEqual([
      [{ date: "2026-02-28", admitted: 3, refused, banned: requests - 3 - refused }],
      [{ date: "2026-02-28", admitted: 4, refused: 0, banned: 0 }],
    ]);
  });

  const line = (keyId: string, fields: object = {}) => ({
    event: "request",
    method: "GET",
    status: 200,
    ms: 4,
    keyId,
    plan: "pro",
    window: "minute",
    remaining: 1,
    ...fields,
  });
  const refused = { status: 429, code: "rate_limit_exceeded" };
  const banned = { status: 429, code: "key_banned" };

  /** An event of `wrangler tail`. */
  const event = (atMs: number, lines: unknown[], fields: object = {}) => ({
    wallTime: 5,
    cpuTime: 1,
    truncated: false,
    executionModel: "stateless",
    outcome: "ok",
    scriptName: "petstore",
    diagnosticsChannelEvents: [],
    exceptions: [],
    logs: lines.map((message) => ({
      message: [typeof message === "string" ? message : JSON.stringify(message)],
      level: "log",
      timestamp: atMs + 5,
    })),
    eventTimestamp: atMs,
    event: { request: { url: "https://petstore.example/v1/pets", method: "GET", headers: {}, cf: {} } },
    ...fields,
  });
  const tail = (...events: object[]) => events.map((each) => JSON.stringify(each, null, 4)).join("\n");

  const MIDNIGHT_MS = Date.parse("2026-11-22T00:00:00Z");
  const EVENTS = [
    event(MIDNIGHT_MS - 1, [line("key_aaaaaaaaaaaa")]),
    event(MIDNIGHT_MS, [line("key_aaaaaaaaaaaa", refused)]),
    ...[1, 2, 3].map((ms) => event(MIDNIGHT_MS + ms, [line("key_bbbbbbbbbbbb", banned)])),
    // Not counted: the object's own event, a cron run, other lines, GET /v1/usage, an invalid key, no rate limit.
    event(MIDNIGHT_MS, [], { entrypoint: "RateLimiter", event: { rpcMethod: "acquire" } }),
    event(MIDNIGHT_MS, [{ event: "idempotency_records_deleted", records: 0 }], {
      event: { cron: "*/10 * * * *" },
    }),
    event(MIDNIGHT_MS, ["{", "null", "7", "no JSON", line("key_aaaaaaaaaaaa", { route: "/v1/usage" })]),
    event(MIDNIGHT_MS, [line("key_cccccccccccc", { plan: undefined, ...refused })], { event: null }),
    event(MIDNIGHT_MS, [line("key_cccccccccccc", { window: undefined, status: 500 })]),
  ];
  const COUNTED = [
    {
      keyId: "key_bbbbbbbbbbbb",
      days: [
        { date: "2026-11-21", admitted: 0, refused: 0, banned: 0 },
        { date: "2026-11-22", admitted: 0, refused: 0, banned: 3 },
      ],
    },
    {
      keyId: "key_aaaaaaaaaaaa",
      days: [
        { date: "2026-11-21", admitted: 1, refused: 0, banned: 0 },
        { date: "2026-11-22", admitted: 0, refused: 1, banned: 0 },
      ],
    },
  ];

  it("counts the events of wrangler tail by UTC day, indented or one per line", async () => {
    const indented = await file("tail.json", `${tail(...EVENTS)}\n`);
    expect(JSON.parse((await usage(["--log", indented, "--json"])).stdout)).toEqual(COUNTED);
    const compact = EVENTS.map((each) => JSON.stringify(each)).join("\r\n\r\n");
    expect(JSON.parse(usageOf(compact, ["--log", "-", "--json"]).stdout)).toEqual(COUNTED);
  });

  it("prints a table for each key, the busiest first", async () => {
    const log = await file("table.json", tail(...EVENTS));
    const { stdout, stderr } = await npmRun("usage", ["--log", log]);
    expect(stderr).toBe("");
    expect(stdout).toBe(`key_bbbbbbbbbbbb: 3 requests

  DATE        ADMITTED #  REFUSED -  BANNED x
  2026-11-21           0          0         0
  2026-11-22           0          0         3  ${"x".repeat(31)}

key_aaaaaaaaaaaa: 2 requests

  DATE        ADMITTED #  REFUSED -  BANNED x
  2026-11-21           1          0         0  ${"#".repeat(31)}
  2026-11-22           0          1         0  ${"-".repeat(31)}
`);
  });

  it("warns if Cloudflare sampled the events of wrangler tail", async () => {
    const overload = event(MIDNIGHT_MS, [], {
      event: { type: "overload", message: "Tail is in sampling mode" },
    });
    const log = await file("sampled.json", tail(...EVENTS, overload));
    const { stdout, stderr, exitCode } = await usage(["--log", log, "--json"]);
    expect([exitCode, JSON.parse(stdout)]).toEqual([0, COUNTED]);
    expect(stderr).toMatch(/^These counts are not exact: [^\n]+\n$/);
  });

  const plain = JSON.stringify(line("key_aaaaaaaaaaaa"));
  const key = newSecret();
  const date = ["--date", "2026-11-22"];
  it.each([
    ["a line without a time", [], plain, "line 1 of LOG has no time: give its day with --date"],
    ["invalid JSON", date, `${plain}\n\n${key}\n${plain}`, "line 3 of LOG does not start valid JSON"],
    [
      "an event of invalid JSON",
      date,
      `${tail(EVENTS[0] ?? {}).replace('"ok"', "ok")}\n${plain}`,
      "line 1 of LOG does not start valid JSON",
    ],
    ["a truncated file", date, tail(...EVENTS).slice(0, -2), "LOG ends in the middle of an event"],
    ["another log", date, `${plain}\n{"level":"info"}`, "line 2 of LOG is neither a log line"],
    [
      "an event without a time",
      [],
      JSON.stringify(event(Number.NaN, [line("key_aaaaaaaaaaaa")])),
      "line 1 of LOG has no time",
    ],
    ["an array", date, "[1]", "line 1 of LOG is neither a log line"],
  ])("rejects %s", async (_, options, contents, problem) => {
    const log = await file("rejected.json", contents);
    expectFailure(await usage(["--log", log, ...options]), problem.replace("LOG", log));
  });

  it("rejects a missing file and a folder", async () => {
    const folder = dirname(petstore.state);
    expectFailure(await usage(["--log", join(folder, "nothing")]), /^there is no file .*nothing\n$/);
    expectFailure(await usage(["--log", folder]), /^can't read .*: EISDIR/);
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

  /** A stand-in for the query API: filters and counts `lines`. */
  async function telemetry(lines: Record<string, unknown>[], statistics: object = {}) {
    const queries: Query[] = [];
    const url = await serve(async (request, response) => {
      const reply = (status: number, body: object) => response.writeHead(status).end(JSON.stringify(body));
      if (request.headers.authorization !== "Bearer a-token") {
        return reply(403, { success: false, errors: [{ code: 10_000, message: "Authentication error" }] });
      }
      if (request.url !== "/client/v4/accounts/an-account/workers/observability/telemetry/query") {
        return reply(404, { success: false, errors: [{ code: 7003, message: "Could not route" }] });
      }
      const query = JSON.parse(await text(request)) as Query;
      queries.push(query);
      const { timeframe, parameters } = query;
      const found = lines.filter(
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
      const result = {
        calculations: [{ calculation: "count", alias: "requests", aggregates, series: [] }],
        statistics,
      };
      reply(200, { success: true, errors: [], messages: [], result });
    });
    const environment = {
      CLOUDFLARE_API_BASE_URL: `${url}/client/v4`,
      CLOUDFLARE_API_TOKEN: "a-token",
      CLOUDFLARE_ACCOUNT_ID: "an-account",
    };
    return { environment, queries };
  }

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
    // Not counted: too old, of another Worker, without a valid key, of a cron run.
    stored(3, "key_bbbbbbbbbbbb"),
    stored(0, "key_bbbbbbbbbbbb", { "$metadata.service": "another" }),
    stored(0, "key_cccccccccccc", { plan: undefined, code: "unauthorized" }),
    { timestamp: todayMs, "$metadata.service": "petstore", event: "idempotency_records_deleted", records: 0 },
  ];

  it("counts admitted, refused and banned requests by key and UTC day", async () => {
    const { environment, queries } = await telemetry(LINES);
    const { stdout, stderr } = await remoteUsage(["--days", "3", "--json"], environment);
    expect(stderr).toBe("");
    const day = (index: number, admitted = 0, refused = 0, banned = 0) => ({
      date: dates[index],
      admitted,
      refused,
      banned,
    });
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

  it("warns if Cloudflare sampled the log", async () => {
    const { environment } = await telemetry(LINES, { abr_level: 10 });
    const { stdout, stderr } = await remoteUsage([], environment);
    expect(stderr).toMatch(/^These counts are not exact: [^\n]+\n$/);
    expect(stdout).toMatch(/^key_aaaaaaaaaaaa: 6 requests\n/);
  });

  it("reports a missing permission and an unexpected result", async () => {
    const { environment } = await telemetry([]);
    expectFailure(
      await remoteUsage([], { ...environment, CLOUDFLARE_API_TOKEN: "another" }),
      /^usage failed: Cloudflare's API refused: Authentication error \(10000\); CLOUDFLARE_API_TOKEN needs the permission/,
    );
    const url = await serve((_, response) => void response.end(`{"success":true,"result":{}}`));
    expectFailure(
      await remoteUsage([], { ...environment, CLOUDFLARE_API_BASE_URL: url }),
      "Cloudflare's API returned something other than a query result",
    );
  });
});

describe("npm run usage rejects", () => {
  const key = newSecret();
  const mistyped = `${key.slice(0, -1)}!`;
  const service = ["--key", key];
  it.each([
    ["no source", [], /^give --key KEY \(or set PETSTORE_KEY\), --log FILE or --remote/],
    ["two sources", [...service, "--log", "-"], "--key, --log and --remote are mutually exclusive"],
    ["a mistyped key", ["--key", mistyped], /^the key is malformed: /],
    ["an id instead of a key", [...service, "--key", "key_0123456789Ab"], /^key number 2 is malformed: /],
    ["a key without --key", [key], "unexpected argument (did you forget -- after npm run usage?)"],
    ["--days 0", [...service, "--days", "0"], "--days must be a number from 1 to 30"],
    ["--days 31", [...service, "--days", "31"], "--days must be a number from 1 to 30"],
    ["--days x", [...service, "--days", "x"], "--days must be a number from 1 to 30"],
    ["more days than Cloudflare keeps", ["--remote", "--days", "8"], "--days must be a number from 1 to 7"],
    ["--days with --log", ["--log", "-", "--days", "3"], "--log does not accept --days"],
    ["--date with --key", [...service, "--date", "2026-11-22"], "--key does not accept --date"],
    ["a date that does not exist", ["--log", "-", "--date", "2026-02-30"], "--date must be a UTC date"],
    ["a date with a time", ["--log", "-", "--date", "2026-11-22T00:00"], "--date must be a UTC date"],
    ["an invalid URL", [...service, "--url", "localhost:8787"], "--url must be the URL of the service"],
    ["an unknown option", ["--kye", key], /^Unknown option '--kye'[^\n]*: see npm run usage -- --help\n$/],
  ])("%s", async (_, args, problem) => {
    const outcome = await usage(args);
    expectFailure(outcome, problem);
    expect(outcome.stderr).not.toContain(key.slice(5, -5));
  });

  it("standard input without a key", () => {
    expectFailure(usageOf("\n\n", ["--key", "-"]), "standard input has no key: give one per line");
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
