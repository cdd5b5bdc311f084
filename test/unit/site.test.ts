// The texts, figures and charts of the usage page, and what the pages share. test/e2e/pages.test.ts draws them in a browser.

import { afterEach, assert, beforeEach, describe, expect, it, vi } from "vitest";
import { forEachWindow, SHORT_WINDOWS } from "../../src/keys/plans.ts";
import type { UsageBody } from "../../src/keys/usage/usage-body.ts";
import { MAX_LIMIT } from "../../src/limits/windows.ts";
import { storedKey, storeKey } from "../../src/site/key.ts";
import { errorText, formatInstant } from "../../src/site/text.ts";
import { adviceOn } from "../../src/site/usage/advice.ts";
import { chartSvg, tableOf } from "../../src/site/usage/chart.ts";
import { gaugeFigures, stateText } from "../../src/site/usage/figures.ts";
import { refusedBy } from "../support/key-record.ts";

const nowMs = Date.parse("2026-11-20T12:34:20Z");
const now = nowMs / 1000;

beforeEach(() => {
  vi.useFakeTimers({ now: nowMs });
  vi.stubEnv("TZ", "UTC");
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllEnvs();
  vi.unstubAllGlobals();
});

it("a key lasts as long as the page if the browser denies storage", () => {
  vi.stubGlobal("sessionStorage", undefined);
  storeKey("  pet_key\t");
  expect(storedKey()).toBe("pet_key");
  storeKey("");
  expect(storedKey()).toBe("");
});

it.each([
  ["a message, as a sentence", '{"message":"the key has expired"}', "The key has expired."],
  ["no JSON", "Bad gateway", "Unexpected response with status 502."],
  ["null", "null", "Unexpected response with status 502."],
  ["JSON without a message", "{}", "Unexpected response with status 502."],
  ["a message that is not text", '{"message":1}', "Unexpected response with status 502."],
  ["an empty message", '{"message":""}', "Unexpected response with status 502."],
])("an error response with %s", (_, body, text) => {
  expect(errorText(502, body)).toBe(text);
});

it.each([
  ["UTC", now + 41_140, "21 November at 00:00:00 UTC"],
  ["Asia/Tokyo", now, "21:34:20 GMT+9"],
  ["Asia/Tokyo", now + 10_800, "21 November at 00:34:20 GMT+9"],
])("a time in the reader's time zone, %s, has the date if it differs", (timeZone, seconds, text) => {
  vi.stubEnv("TZ", timeZone);
  expect(formatInstant(seconds)).toBe(text);
});

describe("the state of a key", () => {
  const minute = { limit: 60, used: 0, remaining: 60, reset: now + 40 };
  const day = { limit: 1000, used: 0, remaining: 1000, reset: now + 41_140 };
  const noneLeft = { remaining: 0 };
  const ban = "It is temporarily banned until 12:44:20 UTC for ignoring 429 responses.";
  const dayLimit = "Its limit per day is exhausted until 21 November at 00:00:00 UTC.";

  const fullMinute = { minute: { ...minute, ...noneLeft } };
  const fullDay = { day: { ...day, ...noneLeft } };

  it.each<[string, Partial<UsageBody["windows"]>, number | null, string]>([
    ["neither banned nor limited", {}, null, ""],
    ["the minute", fullMinute, null, " Its limit per minute is exhausted until 12:35:00 UTC."],
    ["both windows", { ...fullMinute, ...fullDay }, null, ` ${dayLimit}`],
    ["a ban beyond the minute", fullMinute, now + 600, ` ${ban}`],
    ["a ban within the day", fullDay, now + 600, ` ${ban} ${dayLimit}`],
    ["a ban that has ended", {}, now - 1, ""],
  ])("%s", (_, full, bannedUntil, text) => {
    const body: UsageBody = {
      plan: "free",
      windows: { ...forEachWindow(() => minute), day, ...full },
      bannedUntil,
      days: [],
    };
    expect(stateText(body, nowMs)).toBe(`This key is on the Free plan.${text}`);
  });
});

describe("a gauge", () => {
  it.each([
    ["nothing used", 60, 0, { used: "0", of: "of 60", left: "60 left", percent: 0, level: "fine" }],
    ["one of many", 100_000, 1, { used: "1", of: "of 100K", left: "99,999 left", percent: 1, level: "fine" }],
    ["79 %", 1000, 790, { percent: 79, level: "fine" }],
    ["80 %", 1000, 800, { left: "200 left", percent: 80, level: "low" }],
    ["all", 1000, 1000, { left: "0 left", percent: 100, level: "empty" }],
    ["more than a smaller plan has", 10, 25, { used: "25", percent: 100, level: "empty", current: 10 }],
    ["much", 1e9, 1_234_567, { used: "1.2M", of: "of 1B", description: "1,234,567 of 1,000,000,000 used" }],
  ])("shows %s", (_, limit, used, figures) => {
    const window = { limit, used, remaining: Math.max(0, limit - used), reset: now };
    expect(gaugeFigures(window, nowMs)).toMatchObject(figures);
  });

  it.each([
    [-5, "0 s"],
    [119, "119 s"],
    [120, "2 min"],
    [3_540, "59 min"],
    [3_541, "1 h 0 min"],
    [86_340, "23 h 59 min"],
  ])("shows that the window resets in %d seconds", (seconds, text) => {
    const { reset } = gaugeFigures({ limit: 1, used: 0, remaining: 1, reset: now + seconds }, nowMs + 1);
    expect(reset).toBe(`resets in ${text}`);
  });
});

describe("whether a larger plan would have helped", () => {
  const window = (limit: number) => ({ limit, used: 0, remaining: limit, reset: now });
  /** Of a key with these limits, whose days have these counts; it was not used on the others. */
  const adviceTo = (minute: number, day: number, ...counts: number[][]) => {
    const days = Array.from({ length: 30 }, (_, index) => {
      const [admitted = 0, byMinute = 0, byDay = 0, inMinute = 0] = counts[index] ?? [];
      const refused = refusedBy({ minute: byMinute, day: byDay });
      const busiest = { ...Object.fromEntries(SHORT_WINDOWS.map((name) => [name, 0])), minute: inMinute };
      return { date: "2026-11-20", admitted, refusedBy: refused, busiest };
    });
    return adviceOn({
      days,
      windows: { ...forEachWindow(() => window(MAX_LIMIT)), minute: window(minute), day: window(day) },
    });
  };

  /** What a text says of the limits of other windows. */
  const OTHERS = / [\d,]+ per (?!minute|day)\w+,/g;
  const PRO = "The Pro plan would have admitted all: 300 requests per minute, 10,000 per day.";
  const BUSINESS = "The Business plan would have admitted all: 1,000 requests per minute, 100,000 per day.";
  const MINUTE = "On 1 of the last 30 days, the limit per minute refused requests.";
  const DAY = "On 1 of the last 30 days, the limit per day refused requests.";
  const BOTH =
    "On 2 of the last 30 days, the limit per minute refused requests; on 1, the limit per day did.";

  it.each<[string, ReturnType<typeof adviceTo>, string[]]>([
    [
      "no, if nothing was refused, however much was sent",
      adviceTo(60, 1_000, [1_000, 0, 0, 60]),
      ["No limit refused a request in the last 30 days: a larger plan would not have helped."],
    ],
    [
      "yes, but bursts can be spread",
      adviceTo(60, 1_000, [700, 240, 0, 300]),
      [
        MINUTE,
        PRO,
        "Without a larger plan, spreading requests over the day would have been enough: the busiest minute had 300 requests, the limit is 60.",
      ],
    ],
    ["yes, if the day is too small", adviceTo(60, 1_000, [1_000, 0, 9_000, 60]), [DAY, PRO]],
    [
      "yes, if a minute needs one more than a plan has",
      adviceTo(60, 1_000, [900, 241, 0, 301]),
      [
        MINUTE,
        BUSINESS,
        "Spreading requests over the day helps with the limit per minute only: the busiest minute had 301 requests, the limit is 60.",
      ],
    ],
    ["yes, if a day needs one more", adviceTo(60, 1_000, [1_000, 0, 9_001, 60]), [DAY, BUSINESS]],
    [
      "yes, if one day needs the minute, and another one the day",
      adviceTo(300, 10_000, [500, 1, 0, 301], [400, 1, 0, 301], [10_000, 0, 1, 40]),
      [
        BOTH,
        BUSINESS,
        "Spreading requests over the day helps with the limit per minute only: the busiest minute had 301 requests, the limit is 300.",
      ],
    ],
    [
      "with limits as agreed, if no plan is enough",
      adviceTo(1_000, 100_000, [100_000, 0, 1, 900]),
      [
        DAY,
        "No plan with fixed limits would have admitted all: up to 900 requests per minute, 100,001 per day. The Enterprise plan has limits as agreed.",
      ],
    ],
    [
      "not, if the limits are larger by now",
      adviceTo(300, 10_000, [700, 240, 500, 300]),
      [
        "On 1 of the last 30 days, the limit per minute refused requests; on 1, the limit per day did.",
        "The limits that the key has now would have admitted all.",
      ],
    ],
    [
      "yes, also a plan instead of own limits",
      adviceTo(5, 9, [9, 0, 1, 5]),
      [DAY, "The Free plan would have admitted all: 60 requests per minute, 1,000 per day."],
    ],
    [
      "but no burst was refused by the minute after the day was used up",
      adviceTo(60, 1_000, [1_000, 0, 500, 500]),
      [DAY, BUSINESS],
    ],
    [
      "and nothing can be spread that is more than all minutes have",
      adviceTo(1, 9_999, [1_400, 41, 0, 2]),
      [MINUTE, PRO],
    ],
  ])("%s", (_, { text, hasRefusals }, sentences) => {
    expect(text.replaceAll(OTHERS, "")).toBe(sentences.join(" "));
    expect(hasRefusals).toBe(sentences.length > 1);
  });
});

describe("the chart of the days", () => {
  const days = Array.from({ length: 30 }, (_, index) => {
    const date = new Date(nowMs - (29 - index) * 86_400_000).toISOString().slice(0, 10);
    const isLast = index === 29;
    return {
      date,
      admitted: index * 10,
      refusedBy: refusedBy({ minute: isLast ? 40 : 0, day: isLast ? 20 : 0 }),
      busiest: { minute: 70 },
    };
  });
  const svg = chartSvg(days);
  const texts = (part: string) => {
    const [group = ""] = svg.match(new RegExp(`<g class="${part}">[^]*?</g>`)) ?? [];
    return [...group.matchAll(/>([^<]+)<\/text>/g)].map(([, text]) => text);
  };

  it("has the days, round numbers and a text alternative", () => {
    expect(texts("grid")).toEqual(["0", "100", "200", "300", "400"]);
    expect(texts("labels")).toEqual(["23 Oct", "30 Oct", "6 Nov", "13 Nov", "20 Nov"]);
    const refused = "40 refused by the limit per minute, 20 by the limit per day";
    expect(svg).toContain(`30 days, in total 4,350 admitted, ${refused}. `);
    expect(svg).toContain(`<title>20 Nov: 290 admitted, ${refused}</title>`);
  });

  it("stacks refused requests on admitted ones, in proportion, and draws no empty bar", () => {
    const bars = [...svg.matchAll(/<rect class="(admitted|refused-\d)".*? y="([\d.]+)" height="([\d.]+)"/g)];
    expect(bars).toHaveLength(31);
    const [admitted, byMinute, byDay] = bars
      .slice(-3)
      .map(([, kind, y, height]) => ({ kind, y: Number(y), height: Number(height) }));
    assert(admitted && byMinute && byDay);
    expect([admitted.kind, byMinute.kind, byDay.kind]).toEqual(["admitted", "refused-0", "refused-1"]);
    expect(admitted.height / byMinute.height).toBeCloseTo(290 / 40, 5);
    expect(byMinute.height / byDay.height).toBeCloseTo(2, 5);
    expect(byMinute.y + byMinute.height).toBeCloseTo(admitted.y, 5);
    expect(byDay.y + byDay.height).toBeCloseTo(byMinute.y, 5);
  });

  it.each([
    [0, ["0", "1"]],
    [3, ["0", "1", "2", "3"]],
    [9, ["0", "5", "10"]],
    [1_250, ["0", "500", "1K", "1.5K"]],
  ])("has a scale for at most %d requests a day", (admitted, ticks) => {
    const refused = { refusedBy: refusedBy({}), busiest: { minute: 0 } };
    const chart = chartSvg([{ date: "2026-11-20", admitted, ...refused }]);
    expect([...chart.matchAll(/text-anchor="end">([\d.K]+)</g)].map(([, tick]) => tick)).toEqual(ticks);
  });

  it("has a table of UTC days, the latest first", () => {
    vi.stubEnv("TZ", "America/New_York");
    const table = tableOf([
      {
        date: "2026-11-19",
        admitted: 1000,
        refusedBy: refusedBy({ minute: 250, day: 30 }),
        busiest: { minute: 310 },
      },
      { date: "2026-11-20", admitted: 1, refusedBy: refusedBy({}), busiest: { minute: 1 } },
    ]);
    const [header = "", rows = ""] = table.split("</thead>");
    expect([...header.matchAll(/>([^<]+)<\/th>/g)].map(([, text]) => text)).toEqual([
      ...["day", "admitted", "refused by the limit per minute", "by the limit per day", "busiest minute"],
    ]);
    const cells = rows
      .replaceAll(/<\/?tbody>/g, "")
      .replaceAll(/<tr><th scope="row">|<\/td><\/tr>/g, "|")
      .replaceAll(/<[^>]+>+/g, " ");
    expect(cells.split("|").filter(Boolean)).toEqual(["20 Nov  1  0  0  1", "19 Nov  1,000  250  30  310"]);
  });
});
