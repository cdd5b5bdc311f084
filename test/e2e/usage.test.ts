// npm run usage: what it says of keys, from a running service, from its log, and from the log that Cloudflare keeps; and how
// it refuses. What is not proven here is how Cloudflare itself writes and counts the log.

import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { dirname, join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { keys } from "../../scripts/keys.ts";
import type { LoggedKey } from "../../scripts/usage/log.ts";
import { keyText, logText } from "../../scripts/usage/text.ts";
import { usage as usageCommand } from "../../scripts/usage.ts";
import { MESSAGES } from "../../src/http/messages.ts";
import { newSecret } from "../../src/keys/secret.ts";
import type { UsageBody } from "../../src/rate-limit/usage/usage-body.ts";
import { writePastDays } from "../support/e2e/past-days.ts";
import { ban, emptyState, NOBODY, npmRun, type Outcome, runScript, start } from "../support/e2e/petstore.ts";
import { runHere } from "../support/e2e/run-here.ts";

// Machines that run tests can be slow.
vi.setConfig({ testTimeout: 120_000 });

const DAY_MS = 86_400_000;

/** A Sunday. */
const NOW_MS = Date.parse("2026-11-22T11:36:41Z");

let state: string;
let folder: string;
let remove: () => Promise<void>;
let service: Awaited<ReturnType<typeof start>> | undefined;
let origin: string;

beforeAll(async () => {
  ({ state, remove } = await emptyState());
  folder = dirname(state);
  service = await start(state, { more: { WRANGLER_LOG: "log" } });
  origin = service.origin;
});

afterAll(async () => {
  await service?.stop();
  await remove();
});

async function newKey(plan: string, ...limits: string[]): Promise<{ id: string; key: string }> {
  const words = ["create", "--name", "a test", "--plan", plan, ...limits, "--json", "--persist-to", state];
  return JSON.parse((await runHere("keys", keys, words)).stdout);
}

function call(path: string, key: string, init: RequestInit = {}): Promise<Response> {
  return fetch(origin + path, { ...init, headers: { ...init.headers, Authorization: `Bearer ${key}` } });
}

async function usage(words: string[], key = ""): Promise<Outcome> {
  vi.stubEnv("PETSTORE_KEY", key);
  try {
    return await runHere("usage", usageCommand, words);
  } finally {
    vi.unstubAllEnvs();
  }
}

/** The same in a process of its own, which knows no account yet. */
function remoteUsage(words: string[], environment: NodeJS.ProcessEnv): Promise<Outcome> {
  return runScript("scripts/usage.ts", ["--remote", ...words], environment);
}

/** The same with something on standard input. */
function usageOf(input: string, words: string[]): Outcome {
  const options = { input, encoding: "utf8" } as const;
  const { status, stdout, stderr } = spawnSync(process.execPath, ["scripts/usage.ts", ...words], options);
  return { exitCode: status ?? Number.NaN, stdout, stderr };
}

/** A file for this test. */
async function file(name: string, contents: string): Promise<string> {
  const path = join(folder, name);
  await writeFile(path, contents);
  return path;
}

/** A server of this test, until it is over. */
async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Refused, with exit code 1, nothing on standard output, and one line. */
function expectRefusal({ exitCode, stdout, stderr }: Outcome, problem: string | RegExp): void {
  expect([exitCode, stdout]).toEqual([1, ""]);
  expect(stderr).toMatch(/^[^\n]+\n$/);
  expect(stderr).toMatch(problem);
}

describe("of a running service", () => {
  it("shows how a key stands and what it did, and names it by its last four characters alone", async () => {
    const { key } = await newKey("enterprise", "--per-minute", "1200", "--per-day", "5");
    for (let request = 0; request < 7; request += 1) await call("/v1/pets", key);
    await writePastDays(service, state, [{ admitted: 1000, refused: 250 }], Date.now());
    // Through npm, which would print its arguments at any other level of its log.
    const { stdout, stderr, exitCode } = await npmRun("usage", ["--key", key, "--url", `${origin}/v1`]);
    expect([exitCode, stderr]).toEqual([0, ""]);
    const lines = stdout.split("\n");
    expect(lines.slice(0, 3)).toEqual([
      `Key …${key.slice(-4)}, on the enterprise plan`,
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

  it("shows a ban with its end, and many keys, from arguments and standard input", async () => {
    const banned = await newKey("enterprise", "--per-minute", "9", "--per-day", "1");
    const other = await newKey("pro");
    await ban(origin, banned.key);
    const words = ["--key", "-", "--key", banned.key, "--url", origin];
    const { stdout, exitCode } = usageOf(`\n ${other.key} \r\n${banned.key}\n`, words);
    expect(exitCode).toBe(0);
    const headings = stdout.split("\n").filter((line) => line.startsWith("Key "));
    expect(headings.map((line) => line.slice(0, 9))).toEqual(
      [other, banned].map(({ key }) => `Key …${key.slice(-4)}`),
    );
    expect(stdout.match(/BANNED until \d\d:\d\d:\d\dZ, in \d+ min \d+ s/g)).toHaveLength(1);

    const all = await usage(["--key", banned.key, "--url", origin, "--days", "30", "--json"]);
    const [{ lastFour, plan, bannedUntil, days, ...rest }] = JSON.parse(all.stdout);
    expect([lastFour, plan, days.length]).toEqual([banned.key.slice(-4), "enterprise", 30]);
    expect(bannedUntil * 1000).toBeGreaterThan(Date.now());
    expect(rest).toMatchObject({ minute: { limit: 9 }, day: { limit: 1, used: 1, remaining: 0 } });
    expect(days.at(-1).admitted).toBe(1);
    expect(days.at(-1).refused).toBeGreaterThan(180);
  });

  it("takes the key from the environment, but no other source for it", async () => {
    const { key } = await newKey("pro");
    const words = ["--url", origin, "--days", "1", "--json"];
    const { stdout } = await usage(words, key);
    expect(JSON.parse(stdout)).toMatchObject([{ lastFour: key.slice(-4), days: [{ admitted: 0 }] }]);
    const log = await file("empty.json", "");
    expect((await usage(["--log", log], key)).stdout).toBe("There is no request with a valid key.\n");
  });

  it("says what the service says against a key, without the key", async () => {
    const { id, key } = await newKey("pro");
    const good = await newKey("pro");
    await runHere("keys", keys, ["revoke", id, "--persist-to", state]);
    const outcome = await usage(["--key", good.key, "--key", key, "--url", origin]);
    const lastFour = key.slice(-4);
    expectRefusal(
      outcome,
      `usage failed: the service answered 401 to the key that ends in ${lastFour}: ${MESSAGES.unauthorized.revoked}`,
    );
  });

  it("says that nobody, or somebody else, is at an address, and leads a key nowhere else", async () => {
    const key = newSecret();
    expectRefusal(await usage(["--key", key, "--url", NOBODY]), `${NOBODY} can't be reached (ECONNREFUSED)`);
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
      expectRefusal(outcome, `${url} is not the petstore: it answered ${status}, with something else`);
    }
    expect([answers, seen]).toEqual([[], []]);
  });
});

describe("of a log", () => {
  it("counts what the service itself counted, by key, from the lines that it wrote", async () => {
    const banned = await newKey("enterprise", "--per-minute", "9", "--per-day", "3");
    const other = await newKey("pro");
    const lines = () => service?.printed().match(/^\{.*$/gm) ?? [];
    for (const path of ["/v1/pets", "/v1/pets/4711", "/v1/nowhere", "/v1/usage"]) await call(path, other.key);
    await call("/v1/pets", other.key, { method: "DELETE" });
    await call("/v1/pets", other.key, {
      method: "OPTIONS",
      headers: { Origin: "https://shop.example", "Access-Control-Request-Method": "GET" },
    });
    await call("/v1/pets", newSecret());
    await ban(origin, banned.key);
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
    const words = [banned, other].flatMap(({ key }) => ["--key", key]);
    const own = JSON.parse((await usage([...words, "--url", origin, "--days", "1", "--json"])).stdout);
    const [ownDay, otherDay] = own.map(({ days }: UsageBody) => days[0]);
    expect(otherDay).toMatchObject({ admitted: 4, refused: 0 });
    // The request that begins a ban is refused in the usage of the key, and banned in the log.
    const refused = ownDay.refused - 1;
    expect(counted).toEqual([
      [{ date: "2026-02-28", admitted: 3, refused, banned: requests - 3 - refused }],
      [{ date: "2026-02-28", admitted: 4, refused: 0, banned: 0 }],
    ]);
  });

  const line = (keyId: string, more: object = {}) => ({
    event: "request",
    method: "GET",
    status: 200,
    ms: 4,
    keyId,
    plan: "pro",
    window: "minute",
    remaining: 1,
    ...more,
  });
  const refused = { status: 429, code: "rate_limit_exceeded" };
  const banned = { status: 429, code: "key_banned" };

  /** An event as `wrangler tail` prints it: with four spaces, or in one line after jq -c. */
  const event = (atMs: number, lines: unknown[], more: object = {}) => ({
    wallTime: 5,
    cpuTime: 1,
    truncated: false,
    executionModel: "stateless",
    outcome: "ok",
    scriptName: "petstore",
    diagnosticsChannelEvents: [],
    exceptions: [],
    logs: lines.map((each) => ({
      message: [typeof each === "string" ? each : JSON.stringify(each)],
      level: "log",
      timestamp: atMs + 5,
    })),
    eventTimestamp: atMs,
    event: { request: { url: "https://petstore.example/v1/pets", method: "GET", headers: {}, cf: {} } },
    ...more,
  });
  const tail = (...events: object[]) => events.map((each) => JSON.stringify(each, null, 4)).join("\n");

  const MIDNIGHT_MS = Date.parse("2026-11-22T00:00:00Z");
  const EVENTS = [
    event(MIDNIGHT_MS - 1, [line("key_aaaaaaaaaaaa")]),
    event(MIDNIGHT_MS, [line("key_aaaaaaaaaaaa", refused)]),
    ...[1, 2, 3].map((ms) => event(MIDNIGHT_MS + ms, [line("key_bbbbbbbbbbbb", banned)])),
    // What is not about a request with a valid key that counted: the object's own event, a cron run, other lines, usage.
    event(MIDNIGHT_MS, [], { entrypoint: "RateLimiter", event: { rpcMethod: "take" } }),
    event(MIDNIGHT_MS, [{ event: "creations_forgotten", creations: 0 }], { event: { cron: "*/10 * * * *" } }),
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

  it("counts the events of wrangler tail by UTC day, as it indents them or one a line", async () => {
    const indented = await file("tail.json", `${tail(...EVENTS)}\n`);
    expect(JSON.parse((await usage(["--log", indented, "--json"])).stdout)).toEqual(COUNTED);
    const compact = EVENTS.map((each) => JSON.stringify(each)).join("\r\n\r\n");
    expect(JSON.parse(usageOf(compact, ["--log", "-", "--json"]).stdout)).toEqual(COUNTED);
  });

  it("shows them as a table, the busiest key first", async () => {
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

  it("says if wrangler tail was told that it does not get all", () => {
    const overload = event(MIDNIGHT_MS, [], {
      event: { type: "overload", message: "Tail is in sampling mode" },
    });
    const { stdout, stderr, exitCode } = usageOf(tail(...EVENTS, overload), ["--log", "-", "--json"]);
    expect([exitCode, JSON.parse(stdout)]).toEqual([0, COUNTED]);
    expect(stderr).toMatch(/^These numbers are not exact: [^\n]+\n$/);
  });

  const plain = JSON.stringify(line("key_aaaaaaaaaaaa"));
  const key = newSecret();
  it.each([
    [
      "a line that says no time",
      plain,
      "line 1 of standard input says no time: say which day it is of, with --date",
    ],
    [
      "a line that is not JSON",
      `${plain}\n\n${key}\n${plain}`,
      "what begins in line 3 of standard input is not JSON",
    ],
    [
      "an event that is broken",
      `${tail(EVENTS[0] ?? {}).replace('"ok"', "ok")}\n${plain}`,
      "what begins in line 1 of",
    ],
    [
      "a file that is cut off",
      tail(...EVENTS).slice(0, -2),
      "standard input ends in the middle of its last event",
    ],
    [
      "events of something else",
      `${plain}\n{"level":"info"}`,
      "line 2 of standard input is neither one of the log nor",
    ],
    [
      "an event that says no time",
      JSON.stringify(event(Number.NaN, [line("key_aaaaaaaaaaaa")])),
      "line 1 of standard input says no time",
    ],
    [
      "what is no object",
      "[1]",
      "line 1 of standard input is neither one of the log nor an event of wrangler tail",
    ],
  ])("refuses %s", (name, input, problem) => {
    const date = name.includes("time") ? [] : ["--date", "2026-11-22"];
    expectRefusal(usageOf(input, ["--log", "-", ...date]), problem);
  });

  it("refuses a file that is not there, or none", async () => {
    expectRefusal(await usage(["--log", join(folder, "nothing")]), /^there is no file .*nothing\n$/);
    expectRefusal(await usage(["--log", folder]), "can't be read: EISDIR");
  });
});

describe("of the log that Cloudflare keeps", () => {
  interface Query {
    queryId: string;
    timeframe: { from: number; to: number };
    parameters: {
      filters: { key: string; operation: string; value?: string }[];
      groupBys: { value: string }[];
    };
  }

  /** A stand-in for the query API: lines as it keeps them, which it filters and counts by key. */
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
  const kept = (daysAgo: number, keyId: string, more: object = {}) => ({
    timestamp: todayMs - daysAgo * DAY_MS,
    "$metadata.service": "petstore",
    event: "request",
    keyId,
    plan: "pro",
    window: "minute",
    ...more,
  });
  const LINES = [
    ...[1, 2, 3].map(() => kept(0, "key_aaaaaaaaaaaa")),
    kept(0, "key_aaaaaaaaaaaa", { code: "rate_limit_exceeded" }),
    kept(0, "key_aaaaaaaaaaaa", { code: "not_found" }),
    kept(0, "key_aaaaaaaaaaaa", { route: "/v1/usage" }),
    kept(1, "key_aaaaaaaaaaaa", { code: "key_banned" }),
    kept(1, "key_bbbbbbbbbbbb", { timestamp: todayMs - 1 }),
    // Nothing of this counts: too old, of another Worker, or for no valid key.
    kept(3, "key_bbbbbbbbbbbb"),
    kept(0, "key_bbbbbbbbbbbb", { "$metadata.service": "another" }),
    kept(0, "key_cccccccccccc", { plan: undefined, code: "unauthorized" }),
    { timestamp: todayMs, "$metadata.service": "petstore", event: "creations_forgotten", creations: 0 },
  ];

  it("shows by key and UTC day who was admitted, refused and banned", async () => {
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

  it("says if they are estimates", async () => {
    const { environment } = await telemetry(LINES, { abr_level: 10 });
    const { stdout, stderr } = await remoteUsage([], environment);
    expect(stderr).toMatch(/^These numbers are not exact: [^\n]+\n$/);
    expect(stdout).toMatch(/^key_aaaaaaaaaaaa: 6 requests\n/);
  });

  it("says which permission is missing, and what came back instead of numbers", async () => {
    const { environment } = await telemetry([]);
    expectRefusal(
      await remoteUsage([], { ...environment, CLOUDFLARE_API_TOKEN: "another" }),
      /^usage failed: Cloudflare's API refused: Authentication error \(10000\); CLOUDFLARE_API_TOKEN needs the permission/,
    );
    const url = await serve((_, response) => void response.end(`{"success":true,"result":{}}`));
    expectRefusal(
      await remoteUsage([], { ...environment, CLOUDFLARE_API_BASE_URL: url }),
      "Cloudflare's API has answered with something that is not the result of a query",
    );
  });
});

describe("wrong arguments", () => {
  const key = newSecret();
  const mistyped = `${key.slice(0, -1)}!`;
  it.each([
    [
      "no source",
      [],
      /^say where to look: --key KEY, PETSTORE_KEY in the environment, --log FILE or --remote/,
    ],
    [
      "two sources",
      ["--key", key, "--log", "-"],
      "--key, --log and --remote are different sources: give one of them",
    ],
    ["a mistyped key", ["--key", mistyped], /^this is not an API key, or is mistyped: /],
    [
      "an id for a key",
      ["--key", key, "--key", "key_0123456789Ab"],
      /^number 2 is not an API key, or is mistyped: /,
    ],
    [
      "a key where none belongs",
      [key],
      'there is a word too many, or the -- after "npm run usage" is missing',
    ],
    ["--days 0", ["--key", key, "--days", "0"], "--days must be a number from 1 to 30"],
    ["--days 31", ["--key", key, "--days", "31"], "--days must be a number from 1 to 30"],
    ["--days x", ["--key", key, "--days", "x"], "--days must be a number from 1 to 30"],
    ["more days than are kept", ["--remote", "--days", "8"], "--days must be a number from 1 to 7"],
    ["--days for a log", ["--log", "-", "--days", "3"], "--days does not belong to --log"],
    ["--date for a service", ["--key", key, "--date", "2026-11-22"], "--date does not belong to --key"],
    [
      "a date that does not exist",
      ["--log", "-", "--date", "2026-02-30"],
      "--date must be a UTC date, such as",
    ],
    [
      "a date with a time",
      ["--log", "-", "--date", "2026-11-22T00:00"],
      "--date must be a UTC date, such as",
    ],
    [
      "an address that is none",
      ["--key", key, "--url", "localhost:8787"],
      "--url must be where the service is",
    ],
    ["an unknown option", ["--kye", key], /^Unknown option '--kye'[^\n]*: see npm run usage -- --help\n$/],
  ])("%s", async (_, words, problem) => {
    const outcome = await usage(words);
    expectRefusal(outcome, problem);
    expect(outcome.stderr).not.toContain(key.slice(5, -5));
  });

  it("no key on standard input", () => {
    expectRefusal(usageOf("\n\n", ["--key", "-"]), "there was no key on standard input: it takes one a line");
  });
});

describe("in a terminal", () => {
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

  it("is never wider than 80 columns, and shows the least part of a day", () => {
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

  it("scales the bars to the largest day of the key, and draws none for a day without a request", () => {
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
