// npx petstore usage, with a fake of Cloudflare's query API; and the counts of the running service in npx petstore keys show.

import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { daysText, windowsText } from "../../scripts/usage/text.ts";
import { DAY_MS } from "../../src/keys/protocol.ts";
import type { UsageBody } from "../../src/keys/usage/usage-body.ts";
import { apiError, startCloudflareApi } from "../support/e2e/cloudflare-api.ts";
import { runPetstore } from "../support/e2e/in-process.ts";
import { sharedPetstore } from "../support/e2e/shared-petstore.ts";

const petstore = sharedPetstore();

interface Query {
  timeframe: { from: number };
  parameters: { filters: { key: string; value?: string }[] };
}

/** Each test sets what the API answers to a query of the log. */
let answer: (query: Query) => object;
const api = await startCloudflareApi(
  {
    query: () => Promise.reject(new Error("there is no database")),
    routes: { "POST /workers/observability/telemetry/query": async ({ req }) => answer(await req.json()) },
  },
  [],
);

beforeAll(() => {
  for (const [name, value] of Object.entries(api.environment)) vi.stubEnv(name, value);
});
afterAll(() => api.stop());

const todayMs = Math.floor(Date.now() / DAY_MS) * DAY_MS;
const dates = [2, 1, 0].map((days) => new Date(todayMs - days * DAY_MS).toISOString().slice(0, 10));

/** Requests in the log, today and yesterday: by what is asked beside the Worker, a plan and a window, and by key. */
const LOGGED: Record<string, Record<string, number>[]> = {
  "": [
    { key_b: 1, key_a: 6, key_c: 1 },
    { key_b: 1, key_a: 1 },
  ],
  "code=rate_limit_exceeded": [{ key_a: 1 }],
  "code=key_banned": [{}, { key_a: 1 }],
  "route=/v1/usage": [{ key_a: 1, key_b: 1, key_c: 1 }],
};

it("counts admitted, refused and banned requests by key and UTC day, the busiest key first", async () => {
  answer = ({ timeframe, parameters: { filters } }) => {
    const [worker, plan, window, ...asked] = filters;
    expect([worker, plan, window]).toMatchObject([{ value: "petstore" }, { key: "plan" }, { key: "window" }]);
    const days = LOGGED[asked.map(({ key, value }) => `${key}=${value}`).join()];
    const found = days?.[(todayMs - timeframe.from) / DAY_MS] ?? {};
    const aggregates = Object.entries(found).map(([value, count]) => ({ value: count, groups: [{ value }] }));
    return { calculations: [{ aggregates }], statistics: { abr_level: 10 } };
  };
  const { stdout, stderr } = await runPetstore("usage --days 3");
  expect(stdout).toBe(`key_a: 6 requests

  DATE        ADMITTED #  REFUSED -  BANNED x
  ${dates[0]}           0          0         0
  ${dates[1]}           0          0         1  ${"x".repeat(4)}
  ${dates[2]}           4          1         0  ${"#".repeat(16)}${"-".repeat(4)}

key_b: 1 requests

  DATE        ADMITTED #  REFUSED -  BANNED x
  ${dates[0]}           0          0         0
  ${dates[1]}           1          0         0  ${"#".repeat(20)}
  ${dates[2]}           0          0         0
`);
  expect(stderr).toMatch(/^These counts are not exact: /m);
  const json = JSON.parse((await runPetstore("usage --days 3 --json")).stdout);
  expect(json).toMatchObject([{ keyId: "key_a" }, { keyId: "key_b", days: { length: 3 } }]);
});

it("says which permission the token needs", async () => {
  answer = () => {
    throw apiError(403, 10_000, "Authentication error");
  };
  const { exitCode, stdout, stderr } = await runPetstore("usage");
  expect([exitCode, stdout]).toEqual([1, ""]);
  expect(stderr).toContain("Authentication error (10000); CLOUDFLARE_API_TOKEN needs the permission ");
});

it("npx petstore keys show has the counts of the running service, without a request to it", async () => {
  const { id, key } = await petstore.newKey("free");
  const show = (...args: string[]) =>
    runPetstore(["keys", "show", id, "--persist-to", petstore.state, ...args]);
  await petstore.call("/v1/pets", key);
  const { windows, days } = JSON.parse((await show("--json")).stdout);
  const own = (await (await petstore.call("/v1/usage", key)).json()) as UsageBody;
  expect(windows).toEqual({ minute: own.minute, day: own.day });
  expect(windows.day).toMatchObject({ limit: 1_000, used: 1 });
  expect(days).toEqual(own.days.slice(-7));
  expect((await show()).stdout).toMatch(/\n {2}day +1 +1,000 +999 +00:00:00Z, in [^\n]+\n/);
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
