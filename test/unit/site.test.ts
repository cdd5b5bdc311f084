// The texts, figures and charts of the usage page, and what the pages share. test/e2e/pages.test.ts draws them in a browser.

import { afterEach, assert, beforeEach, describe, expect, it, vi } from "vitest";
import {
  forEachWindow,
  type Limits,
  SHORT_WINDOWS,
  WINDOW_NAMES,
  WINDOWS,
  type WindowName,
} from "../../src/keys/plans.ts";
import { markedDays } from "../../src/keys/usage/demand.ts";
import type { UsageBody } from "../../src/keys/usage/usage-body.ts";
import { MAX_LIMIT } from "../../src/limits/windows.ts";
import { storedKey, storeKey } from "../../src/site/key.ts";
import { errorText, formatInstant } from "../../src/site/text.ts";
import { adviceOn, limitsOfWindows, totalsOf } from "../../src/site/usage/advice.ts";
import { chartSvg, legend, tableOf } from "../../src/site/usage/chart.ts";
import { gaugeFigures, stateTexts } from "../../src/site/usage/figures.ts";
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

it("a key lasts as long as the page if the browser denies storage, or stores no more", () => {
  const setItem = () => {
    throw new Error("full");
  };
  for (const storage of [undefined, { getItem: () => "", setItem }]) {
    vi.stubGlobal("sessionStorage", storage);
    for (const [text, key] of [
      ["  pet_key\t", "pet_key"],
      ["", ""],
    ] as const) {
      storeKey(text);
      expect(storedKey()).toBe(key);
    }
  }
});

it("the text of an error response is its message, as a sentence, or its status if it has none", () => {
  expect(errorText(502, '{"message":"the key has expired"}')).toBe("The key has expired.");
  for (const body of ["Bad gateway", "null", "{}", '{"message":1}', '{"message":""}'])
    expect(errorText(502, body), body).toBe("Unexpected response with status 502.");
});

it.each([
  ["UTC", now + 41_140, "21 November at 00:00:00 UTC"],
  ["Asia/Tokyo", now, "21:34:20 GMT+9"],
  ["Asia/Tokyo", now + 10_800, "21 November at 00:34:20 GMT+9"],
])("a time in the reader's time zone, %s, has the date if it differs", (timeZone, seconds, text) => {
  vi.stubEnv("TZ", timeZone);
  expect(formatInstant(seconds)).toBe(text);
});

describe("the state of a key and its gauges", () => {
  const MINUTE = { limit: 60, used: 1, remaining: 59, reset: now + 40 };
  const DAY = { limit: 1000, used: 1, remaining: 999, reset: now + 41_140 };
  const FULL = { minute: { ...MINUTE, used: 60, remaining: 0 }, day: { ...DAY, used: 1000, remaining: 0 } };
  const banText = " It is temporarily banned until 12:44:20 UTC for ignoring 429 responses.";
  const dayText = " Its limit per day is exhausted until 21 November at 00:00:00 UTC.";
  const untilBan = "nothing admitted until 12:44:20 UTC";
  const untilDay = "nothing admitted until 21 November at 00:00:00 UTC";

  it.each([
    ["neither banned nor limited", [], undefined, "", "59 left", "999 left"],
    [
      "a full minute",
      ["minute"],
      undefined,
      " Its limit per minute is exhausted until 12:35:00 UTC.",
      "0 left",
      "999 left",
    ],
    ["a full day", ["day"], undefined, dayText, untilDay, "0 left"],
    ["both are full", ["minute", "day"], undefined, dayText, untilDay, "0 left"],
    ["a ban beyond the minute", ["minute"], 600, banText, untilBan, untilBan],
    ["a ban within a full day", ["day"], 600, banText + dayText, untilDay, untilDay],
    ["a ban that ends now", [], 0, "", "59 left", "999 left"],
  ] as const)("%s", (_, full, banSeconds, text, ofMinute, ofDay) => {
    const some = Object.fromEntries(full.map((name) => [name, FULL[name]]));
    const windows: UsageBody["windows"] = { ...forEachWindow(() => MINUTE), day: DAY, ...some };
    const bannedUntil = banSeconds === undefined ? null : now + banSeconds;
    const state = { plan: "free", windows, bannedUntil } as const;
    const isBanned = text.startsWith(banText);
    expect(stateTexts(state, nowMs)).toEqual({ text: `This key is on the Free plan.${text}`, isBanned });
    for (const [name, left] of [
      ["minute", ofMinute],
      ["day", ofDay],
    ] as const) {
      const level = /^(0|nothing)/.test(left) ? "empty" : "fine";
      const description = expect.stringMatching(new RegExp(`^[\\d,]+ of [\\d,]+ used, ${left}$`));
      expect(gaugeFigures(state, windows[name], nowMs), name).toMatchObject({ left, level, description });
    }
  });

  const gaugeOf = (limit: number, used: number, seconds = 0) => {
    const window = { limit, used, remaining: Math.max(0, limit - used), reset: now + seconds };
    return gaugeFigures({ plan: "free", windows: {}, bannedUntil: null }, window, nowMs + 1);
  };

  it.each([
    [60, 0, { used: "0", of: "of 60", left: "60 left", percent: 0, level: "fine", current: 0 }],
    [1e9, 1, { used: "1", of: "of 1,000,000,000", left: "999,999,999 left", percent: 1 }],
    [1000, 790, { percent: 79, level: "fine", current: 790 }],
    [1000, 800, { left: "200 left", percent: 80, level: "low" }],
    [1000, 1000, { left: "0 left", percent: 100, level: "empty" }],
    // After a change to a smaller plan.
    [10, 25, { used: "25", percent: 100, level: "empty", current: 10 }],
  ])("of a limit of %d, %d used", (limit, used, figures) => {
    expect(gaugeOf(limit, used)).toMatchObject(figures);
  });

  it("a gauge shows when its window resets, in seconds, minutes or hours", () => {
    const texts = [-5, 119, 120, 3_540, 3_541, 86_340].map((seconds) => gaugeOf(1, 0, seconds).reset);
    const times = ["0 s", "119 s", "2 min", "59 min", "1 h 0 min", "23 h 59 min"];
    expect(texts).toEqual(times.map((time) => `resets in ${time}`));
  });
});

describe("what a larger plan would have changed", () => {
  const days = (counts: { admitted?: number; refused?: Partial<Limits>; busiest?: Partial<Limits> }[]) =>
    Array.from({ length: 30 }, (_, index) => {
      const { admitted = 0, refused = {}, busiest = {} } = counts[index] ?? {};
      const date = new Date(nowMs - (29 - index) * 86_400_000).toISOString().slice(0, 10);
      const each = SHORT_WINDOWS.map((name) => [name, busiest[name] ?? 0]);
      return { date, admitted, refusedBy: refusedBy(refused), busiest: Object.fromEntries(each) };
    });
  const windowsOf = (limits: Partial<Limits>) =>
    forEachWindow((name) => ({ limit: limits[name] ?? MAX_LIMIT, used: 0, remaining: 1, reset: now }));

  /** Of a key with these limits, whose days have these counts; it was not used on the others. */
  const of = (minute: number, day: number, ...counts: number[][]) => {
    const usage = {
      days: days(
        counts.map(([admitted = 0, byMinute = 0, byDay = 0, inMinute = 0]) => ({
          admitted,
          refused: { minute: byMinute, day: byDay },
          busiest: { minute: inMinute },
        })),
      ),
      windows: windowsOf({ minute, day }),
    };
    const marked = markedDays(usage.days, limitsOfWindows(usage.windows));
    const totals: Record<string, string> = Object.fromEntries(totalsOf(marked));
    const titles = ["Limit per minute used up", "Limit per day used up", "Refused requests"];
    return {
      totals: titles.map((title) => totals[title]),
      text: adviceOn(marked, usage.windows).replaceAll(OTHERS, ""),
    };
  };

  /** What a text says of the limits of other windows. */
  const OTHERS = /, [\d,]+ per (?!minute|day)\w+/g;
  const ADMITTED = "would have admitted these requests with no limit used up";
  const smallest = (plan: string, minute: string, day: string) =>
    `The ${plan} plan is the smallest that ${ADMITTED}: ${minute} requests per minute, ${day} per day.`;
  const [FREE, PRO] = [smallest("Free", "60", "1,000"), smallest("Pro", "300", "10,000")];
  const BUSINESS = smallest("Business", "1,000", "100,000");
  const NONE = `No plan with fixed limits ${ADMITTED}: up to 900 requests per minute, 100,000 per day. The Enterprise plan has limits as agreed.`;
  const NOW = `The limits that the key has now ${ADMITTED}.`;
  const NOTHING = "No limit was used up: a larger plan would have changed nothing.";
  const busiest = (most: number, limit = 60) =>
    `the busiest minute had ${most} requests, the limit is ${limit}.`;
  const SPREAD = "Without a larger plan, spreading requests over the day would have been enough:";
  const NOT_DAY = "Spreading requests over the day helps with the limit per minute, not per day:";
  const UNSENT = "may need more: requests that were not sent are not counted.";
  const WAITING = `A client that waits ${UNSENT}`;
  const REPEATING = `A client that repeats refused requests may need less, one that waits ${UNSENT}`;

  // Each day: admitted, refused by minute and day, and the busiest minute. Then the days of the minute's limit, of the day's, and refusals.
  it.each<[string, ReturnType<typeof of>, string, string[]]>([
    ["each limit had one left", of(60, 1_000, [999, 0, 0, 59]), "0, 0, 0", [NOTHING]],
    ["a used-up day", of(60, 1_000, [1_000, 0, 0, 59]), "0, 1, 0", [PRO, WAITING]],
    [
      "full minutes that nothing was refused in",
      of(60, 1_000, [999, 0, 0, 60], [60, 0, 0, 60]),
      "2, 0, 0",
      [PRO, `${SPREAD} ${busiest(60)}`, WAITING],
    ],
    ["both", of(60, 1_000, [1_000, 0, 0, 60]), "1, 1, 0", [PRO, `${NOT_DAY} ${busiest(60)}`, WAITING]],
    [
      "refusals by the minute",
      of(60, 1_000, [700, 240, 0, 299]),
      "1, 0, 240",
      [PRO, `${SPREAD} ${busiest(299)}`, REPEATING],
    ],
    ["refusals by the day", of(60, 1_000, [1_000, 0, 8_999, 59]), "0, 1, 8,999", [PRO, REPEATING]],
    [
      "as many in a minute as the next plan has",
      of(60, 1_000, [900, 240, 0, 300]),
      "1, 0, 240",
      [BUSINESS, `${NOT_DAY} ${busiest(300)}`, REPEATING],
    ],
    ["as many on a day", of(60, 1_000, [1_000, 0, 9_000, 59]), "0, 1, 9,000", [BUSINESS, REPEATING]],
    [
      "one day needs the minute, another one the day",
      of(300, 10_000, [500, 1, 0, 301], [400, 1, 0, 301], [10_000, 0, 1, 40]),
      "2, 1, 3",
      [BUSINESS, `${NOT_DAY} ${busiest(301, 300)}`, REPEATING],
    ],
    ["no plan is enough", of(1_000, 100_000, [100_000, 0, 0, 900]), "0, 1, 0", [NONE, WAITING]],
    ["the limits are larger by now", of(300, 10_000, [700, 240, 500, 299]), "0, 0, 740", [NOW, REPEATING]],
    ["own limits", of(5, 10, [9, 0, 1, 4]), "0, 0, 1", [FREE, REPEATING]],
    [
      "a burst after the day was used up",
      of(60, 1_000, [1_000, 0, 500, 559]),
      "0, 1, 500",
      [BUSINESS, REPEATING],
    ],
    [
      "a minute that was full beside the refusals of a used-up day",
      of(60, 1_000, [1_000, 0, 1, 61]),
      "1, 1, 1",
      [PRO, `${NOT_DAY} ${busiest(61)}`, REPEATING],
    ],
    [
      "a minute that refused, whatever the day refused",
      of(60, 1_000, [1_000, 1, 500, 61]),
      "1, 1, 501",
      [PRO, `${NOT_DAY} ${busiest(61)}`, REPEATING],
    ],
    ["as much as all minutes have", of(1, 9_999, [1_400, 40, 0, 2]), "1, 0, 40", [PRO, REPEATING]],
  ])("%s", (_, { totals, text }, figures, sentences) => {
    expect(totals.join(", ").replaceAll(/ days?/g, "")).toBe(figures);
    expect(text).toBe(sentences.join(" "));
  });

  // Whatever windows there are. A window of several days stays used up until it ends.
  it.each(WINDOW_NAMES)("counts the days on which the limit per %s was used up", (name) => {
    const counts = Array.from({ length: 30 }, (_, index) => {
      const requests = index === 0 ? 10 : index === 29 ? 9 : 0;
      return { admitted: requests, busiest: { [name]: requests } };
    });
    const usage = { days: days(counts), windows: windowsOf({ [name]: 10 }) };
    const windowOf = ({ date }: { date: string }) =>
      Math.floor(Date.parse(date) / 1000 / Math.max(86_400, WINDOWS[name]));
    const [first] = usage.days.map(windowOf);
    const expected = usage.days.map((day) => (windowOf(day) === first ? [name] : []));
    const marked = markedDays(usage.days, limitsOfWindows(usage.windows));
    expect(marked.map(({ usedUp }) => usedUp)).toEqual(expected);
    const count = expected.flat().length;
    expect(totalsOf(marked)).toContainEqual([
      `Limit per ${name} used up`,
      count === 1 ? "1 day" : `${count} days`,
    ]);
  });
});

describe("the chart of the days", () => {
  const [shortest, longest] = [WINDOW_NAMES[0], WINDOW_NAMES.at(-1)] as [WindowName, WindowName];
  const days = Array.from({ length: 30 }, (_, index) => {
    const date = new Date(nowMs - (29 - index) * 86_400_000).toISOString().slice(0, 10);
    const isLast = index === 29;
    return {
      date,
      admitted: index * 10,
      refusedBy: refusedBy({ minute: isLast ? 40 : 0, day: isLast ? 20 : 0 }),
      busiest: { minute: 70 },
      usedUp: isLast ? WINDOW_NAMES : index === 27 ? [longest] : [],
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
    expect(svg).toContain(`<title>19 Nov: 280 admitted, 0 refused by`);
    expect(svg).toContain(
      `<title>20 Nov: 290 admitted, ${refused}; used up: ${WINDOW_NAMES.join(", ")}</title>`,
    );
  });

  it("marks the limits that were used up below their days, round for the shortest window and square for the longest", () => {
    const marks = [
      ...svg.matchAll(/<rect class="mark mark-(\d)" x="([\d.]+)" y="([\d.]+)".*? rx="([\d.]+)"/g),
    ];
    const last = WINDOW_NAMES.length - 1;
    expect(marks.map(([, name]) => Number(name))).toEqual([last, ...WINDOW_NAMES.keys()]);
    const [earlier, round, ...others] = marks.map(([, , x, y, radius]) => ({ x, y: Number(y), radius }));
    const square = others.at(-1);
    assert(earlier && round && square);
    expect([earlier.radius, round.radius, square.radius]).toEqual(["0", "5", "0"]);
    expect([earlier.x === square.x, round.x === square.x]).toEqual([false, true]);
    expect([earlier.y === square.y, round.y < square.y]).toEqual([true, true]);
    for (const name of [shortest, longest]) expect(legend()).toContain(`</svg>limit per ${name} used up<`);
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
    [1_250, ["0", "500", "1,000", "1,500"]],
    [1e9, ["0", "500,000,000", "1,000,000,000"]],
  ])("has a scale for at most %d requests a day", (admitted, ticks) => {
    const refused = { refusedBy: refusedBy({}), busiest: { minute: 0 }, usedUp: [] };
    const chart = chartSvg([{ date: "2026-11-20", admitted, ...refused }]);
    expect([...chart.matchAll(/text-anchor="end">([\d,]+)</g)].map(([, tick]) => tick)).toEqual(ticks);
  });

  it("has a table of UTC days, the latest first", () => {
    vi.stubEnv("TZ", "America/New_York");
    const table = tableOf([
      {
        date: "2026-11-19",
        admitted: 1000,
        refusedBy: refusedBy({ minute: 250, day: 30 }),
        busiest: { minute: 310 },
        usedUp: ["minute", "day"],
      },
      { date: "2026-11-20", admitted: 1, refusedBy: refusedBy({}), busiest: { minute: 1 }, usedUp: [] },
    ]);
    const [header = "", rows = ""] = table.split("</thead>");
    expect([...header.matchAll(/>([^<]+)<\/th>/g)].map(([, text]) => text)).toEqual([
      ...["day", "admitted", "refused by the limit per minute", "by the limit per day", "busiest minute"],
      "used up",
    ]);
    const cells = [...rows.matchAll(/<tr>(.*?)<\/tr>/g)].map(([row]) =>
      row.replaceAll(/<[^>]+>+/g, " ").trim(),
    );
    expect(cells).toEqual(["20 Nov  1  0  0  1", "19 Nov  1,000  250  30  310  minute, day"]);
  });
});
