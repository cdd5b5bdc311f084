// ./petstore usage and keys show: what operators read of the rows that the objects of keys write. The rows here are written by hand,
// into the previews' database on a fake of Cloudflare's API. dashboard.test.ts has local ones.

import { beforeAll, beforeEach, expect, it } from "vitest";
import { migrate } from "../../scripts/cloudflare/database.ts";
import { formatTime } from "../../scripts/lib/time.ts";
import { PLAN_LIMITS } from "../../src/keys/plans.ts";
import { type MarkedDay, markedDays } from "../../src/keys/usage/demand.ts";
import { DAY_MS } from "../../src/limits/protocol.ts";
import { createKey } from "../../src/operators/admin.ts";
import type { KeyUsage } from "../../src/operators/usage.ts";
import { runPetstore } from "../support/e2e/in-process.ts";
import { useAccount } from "../support/e2e/use-account.ts";

const { databaseOf } = await useAccount();
const database = databaseOf("petstore-previews-keys");

const todayMs = Math.floor(Date.now() / DAY_MS) * DAY_MS;
const [today = "", yesterday = "", before = ""] = [0, 1, 2].map((days) =>
  new Date(todayMs - days * DAY_MS).toISOString().slice(0, 10),
);
const NOTE = "The counts of today can be 10 minutes old.\n";

beforeAll(async () => {
  await migrate(database, "keys");
});
beforeEach(async () => {
  await database.prepare("DELETE FROM key_usage").run();
});

async function run(line: string) {
  const { stderr, ...outcome } = await runPetstore(`${line} --preview staging`);
  return { ...outcome, stderr: stderr.replace("Opening the previews' database of keys\n", "") };
}

async function json(line: string) {
  return JSON.parse((await run(`${line} --json`)).stdout);
}

type Counts = [admitted: number, refusedMinute: number, refusedDay: number];

/** The requests of a key on a day, as one object counted them; the last ones came a second and two after the day's beginning. */
async function use(id: string, day: string, counts: Counts, object = "a"): Promise<void> {
  const [admitted, refusedMinute, refusedDay] = counts;
  const refusedBy = { minute: refusedMinute, day: refusedDay };
  const busiest = { minute: admitted + refusedMinute };
  const startMs = Date.parse(day);
  const times = [startMs + 1_000, refusedMinute + refusedDay > 0 ? startMs + 2_000 : null];
  await database
    .prepare("INSERT INTO key_usage VALUES (?1, ?2, ?3, 1, ?4, ?5, ?6, ?7, ?8, 0)")
    .bind(day, id, object, admitted, JSON.stringify(refusedBy), JSON.stringify(busiest), ...times)
    .run();
}

async function newKey(name: string, plan: "free" | "pro" = "free") {
  const operator = { by: "a test", nowMs: Date.now() };
  return (await createKey(database, { name, plan, expiresAtMs: null }, operator)).key.id;
}

it("usage adds up the rows of each key on the last days, of all previews, the busiest first", async () => {
  const [ann, jo] = [await newKey("Ann"), await newKey("Jo", "pro")];
  await use(ann, today, [400, 6, 0], "a");
  // Another preview, with limits of its own.
  await use(ann, today, [500, 1, 2], "b");
  await use(ann, yesterday, [100, 0, 0]);
  await use(ann, before, [1_000_000, 0, 0]);
  await use(jo, yesterday, [1_234, 0, 0]);
  const { stdout, stderr } = await run("usage --days 2");
  expect(stdout).toBe(
    `ID                NAME  PLAN                      ADMITTED  REFUSED BY MINUTE  BY DAY  BUSIEST MINUTE  DAYS AT MINUTE LIMIT  AT DAY LIMIT  SHARE  ENOUGH      LAST USED
${jo}  Jo    pro 300/minute 10000/day     1,234                  0       0           1,234                     1             0  12.3%  enterprise  ${yesterday}T00:00:01Z
${ann}  Ann   free 60/minute 1000/day      1,000                  7       2             501                     2             0    50%  business    ${today}T00:00:02Z
`,
  );
  expect(stderr).toBe(NOTE);
  expect(await json("usage --days 2 --sort share")).toEqual([
    {
      ...{
        id: ann,
        name: "Ann",
        ref: null,
        note: null,
        plan: "free",
        limits: { minute: 60, day: 1_000 },
        share: 0.5,
      },
      ...{ admitted: 1_000, refusedBy: { minute: 7, day: 2 }, busiest: { minute: 501 } },
      ...{ daysAtLimit: { minute: 2, day: 0 }, sent: { minute: 501, day: 503 }, enough: "business" },
      ...{ lastAdmittedAt: `${today}T00:00:01Z`, lastRefusedAt: `${today}T00:00:02Z` },
    },
    expect.objectContaining({ id: jo, share: 0.1234, lastRefusedAt: null }),
  ]);
});

it("the days at a limit, and the plan that is enough, are what the page /usage says of the same days", async () => {
  const days = [today, yesterday, before];
  const ids: string[] = [];
  let count = 0;
  for (const admitted of [0, 59, 999, 1_000, 10_000])
    for (const [minute, day] of [
      [0, 0],
      [5, 0],
      [0, 50],
      [5, 50],
    ] as const) {
      const id = await newKey(`k${ids.length}`, ids.length % 2 === 0 ? "free" : "pro");
      ids.push(id);
      for (const busiest of [59, 60, 300].slice(0, 1 + (count++ % 3))) {
        const date = days[[59, 60, 300].indexOf(busiest)] ?? "";
        await use(id, date, [admitted, minute, day]);
        const update = "UPDATE key_usage SET busiest = ?3 WHERE key_id = ?1 AND day = ?2";
        await database
          .prepare(update)
          .bind(id, date, JSON.stringify({ minute: busiest }))
          .run();
      }
    }
  const keys = await json("usage --days 3 --sort at-limit");
  expect(keys).toHaveLength(ids.length);
  for (const { id, plan, daysAtLimit } of keys) {
    // What the page says is another implementation of the rule.
    const shown: MarkedDay[] = await json(`usage ${id} --days 3`);
    const marked = markedDays(shown, PLAN_LIMITS[plan as "free" | "pro"]);
    expect([id, shown.map(({ usedUp }) => usedUp)]).toEqual([id, marked.map(({ usedUp }) => usedUp)]);
    const daysOf = (name: "minute" | "day") => marked.filter(({ usedUp }) => usedUp.includes(name)).length;
    expect([id, daysAtLimit]).toEqual([id, { minute: daysOf("minute"), day: daysOf("day") }]);
  }
  const onlyAtLimit = await json("usage --days 3 --at-limit");
  const isAtLimit = ({ daysAtLimit: { minute, day } }: KeyUsage) => minute + day > 0;
  expect(onlyAtLimit.map(({ id }: KeyUsage) => id).sort()).toEqual(
    keys
      .filter(isAtLimit)
      .map(({ id }: KeyUsage) => id)
      .sort(),
  );
  const atLimit = keys.map(({ daysAtLimit: { minute, day } }: KeyUsage) => Math.max(minute, day));
  // Each count of days occurs, and the keys with most come first.
  expect(new Set(atLimit)).toEqual(new Set([3, 2, 1, 0]));
  expect(atLimit).toEqual(atLimit.toSorted((a: number, b: number) => b - a));
});

it("what is compared with a limit is that of one preview, and whoever used up none needs no larger plan", async () => {
  const [apart, hammering] = [await newKey("apart"), await newKey("hammering", "pro")];
  // Together more than the limit, none by itself.
  await use(apart, yesterday, [900, 0, 0], "a");
  await use(apart, yesterday, [950, 0, 0], "b");
  // One used up its limit, though a correction makes the sum smaller.
  await use(apart, before, [1_000, 0, 0], "a");
  await use(apart, before, [-40, 0, 0], "b");
  await database.prepare(`UPDATE key_usage SET busiest = '{"minute":5}'`).run();
  // Refused by the smaller limits of an earlier plan.
  await use(hammering, yesterday, [900, 9_500, 0]);
  const update = `UPDATE key_usage SET busiest = '{"minute":72}' WHERE key_id = ?1`;
  await database.prepare(update).bind(hammering).run();
  const [first, second] = await json("usage --days 3 --sort at-limit");
  expect(first).toMatchObject({ id: apart, daysAtLimit: { minute: 0, day: 1 }, enough: "pro" });
  expect(second).toMatchObject({ id: hammering, daysAtLimit: { minute: 0, day: 0 }, enough: "pro" });
  const days: { date: string; usedUp: string[] }[] = await json(`usage ${apart} --days 3`);
  expect(days.flatMap(({ date, usedUp }) => usedUp.map((name) => [date, name]))).toEqual([[before, "day"]]);
});

it("usage --daily and --csv have all keys and all days in one call, and no formula", async () => {
  const id = await newKey("+SUM(A1);-1", "pro");
  await database.prepare("UPDATE keys SET ref = 'C-1' WHERE id = ?1").bind(id).run();
  const deleted = "key_0123456789Ab";
  await use(id, today, [299, 0, 0], "a");
  await use(id, today, [2, 1, 0], "b");
  await use(deleted, yesterday, [5, 0, 0]);
  expect((await run("usage --daily --csv --days 2")).stdout).toBe(
    `date,id,name,ref,note,plan,admitted,refused_by_minute,refused_by_day,busiest_minute
${yesterday},${deleted},,,,,5,0,0,5
${today},${id},'+SUM(A1);'-1,C-1,,pro,301,1,0,299
`,
  );
  expect(await json("usage --daily --days 2")).toMatchObject([
    { date: yesterday, id: deleted, name: null, plan: null, admitted: 5 },
    { date: today, id, name: "+SUM(A1);-1", ref: "C-1", refusedBy: { minute: 1 }, busiest: { minute: 299 } },
  ]);
  expect(await json("usage --daily --days 1")).toHaveLength(1);
  expect((await run("usage --daily")).stdout).toMatch(
    new RegExp(
      `^DATE .*\n${yesterday} +${deleted} +- +- +5 +0 +0\n${today} +${id} +\\+SUM\\(A1\\);-1 +C-1 +pro +301 +1 +0\n$`,
    ),
  );
  expect((await run("usage --csv")).stdout).toBe(
    `id,name,ref,note,plan,per_minute,per_day,admitted,refused_by_minute,refused_by_day,busiest_minute,days_at_limit_per_minute,days_at_limit_per_day,sent_per_minute,sent_per_day,share_of_day,enough,last_used
${id},'+SUM(A1);'-1,C-1,,pro,300,10000,301,1,0,299,0,0,299,299,0.0299,pro,${today}T00:00:02Z
${deleted},,,,,,,5,0,0,5,0,0,5,5,,,${yesterday}T00:00:01Z
`,
  );
  expect((await run("usage --total --csv --days 2")).stdout).toBe(
    `date,admitted,refused_by_minute,refused_by_day,busiest_minute
${yesterday},5,0,0,5
${today},301,1,0,299
`,
  );
  expect(await json("usage --total --days 1")).toMatchObject([{ date: today, admitted: 301 }]);
  expect((await run("usage --total --days 2")).stdout).toMatch(
    new RegExp(`\n${yesterday} +5 +0 +0  #\n${today} `),
  );
  await use(id, yesterday, [10_000, 0, 0]);
  expect((await run(`usage ${id} --days 2`)).stdout).toMatch(
    /USED UP\n\S+ +10,000 +0 +0 {2}minute, day {2}#/,
  );
  expect((await run(`usage ${id} --csv --days 1`)).stdout).toBe(
    `date,admitted,refused_by_minute,refused_by_day,busiest_minute,used_up\n${today},301,1,0,299,\n`,
  );
});

it("usage --daily has all rows of more than one statement, each once", async () => {
  const fill = `
    WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 6000)
    INSERT INTO key_usage SELECT iif(i > 3000, ?1, ?2), printf('key_%012d', i % 3000), 'a', 1, i, '{}', '{}', 1, NULL, 0 FROM n`;
  await database.prepare(fill).bind(today, yesterday).run();
  const rows: { date: string; id: string }[] = await json("usage --daily --days 2");
  const names = rows.map(({ date, id }) => date + id);
  expect([names.length, new Set(names).size]).toEqual([6_000, 6_000]);
  expect(names).toEqual(names.toSorted());
  const csv = (await run("usage --daily --days 2 --csv")).stdout.trimEnd().split("\n");
  expect([csv.length, csv.filter((line) => line.startsWith("date,")).length]).toEqual([6_001, 1]);
});

it("usage shows the first keys in the order that was asked for, and says how many more there are", async () => {
  const ids: Record<string, string> = {};
  for (const [index, name] of [...Array(21).keys()].map((index) => [index, `c${index}`] as const)) {
    ids[name] = await newKey(name);
    await use(ids[name], today, [100 + index, index === 3 ? 9 : 0, 0]);
  }
  await use(ids.c5 ?? "", yesterday, [-50, 0, 0]);
  const { stdout, stderr } = await run("usage");
  expect(stdout.split("\n")).toHaveLength(22);
  expect(stdout).not.toContain(` c5 `);
  expect(stderr).toBe(`Keys that are not shown: 1. --top 21 shows all.\n${NOTE}`);
  expect((await run("usage --top 1 --json")).stderr).toBe(
    "Keys that are not shown: 20. --top 21 shows all.\n",
  );
  expect(await json("usage")).toHaveLength(21);
  expect(await json("usage --top 1")).toMatchObject([{ name: "c20" }]);
  expect(await json("usage --top 1 --sort refused")).toMatchObject([{ name: "c3" }]);
  expect(await json("usage --top 2 --sort name")).toMatchObject([{ name: "c0" }, { name: "c1" }]);
});

it("usage shows a key that was deleted, one on a plan that this version does not know, and negative counts", async () => {
  const [later, corrected] = [await newKey("later"), await newKey("corrected")];
  await database.prepare("UPDATE keys SET plan = 'of-later' WHERE id = ?1").bind(later).run();
  await use(later, today, [5, 0, 0]);
  await use("key_0123456789Ab", today, [3, 0, 0]);
  await use(corrected, today, [-20, 1, 0]);
  const [, ...lines] = (await run("usage")).stdout.trimEnd().split("\n");
  expect(lines.map((line) => line.split(/ {2,}/).slice(1, -1))).toEqual([
    ["later", "of-later", "5", "0", "0", "5", "0", "0", "-", "-"],
    ["-", "-", "3", "0", "0", "3", "0", "0", "-", "-"],
    ["corrected", "free 60/minute 1000/day", "-20", "1", "0", "-19", "0", "0", "-2%", "free"],
  ]);
  expect((await run("usage key_0123456789Ab --days 1")).stdout).toContain(`${today}           3 `);
  const { exitCode, stdout } = await run(`usage ${corrected} --days 1`);
  // The bar has what was refused.
  expect([exitCode, stdout]).toEqual([0, expect.stringMatching(/ -20 +1 +0 {2}-{20}\n$/)]);
});

it("keys list --unused has the keys that were never used, or had no request on so many days", async () => {
  const dayAgo = { by: "a test", nowMs: todayMs - 8 * DAY_MS };
  const old = async (name: string) => {
    return (await createKey(database, { name, plan: "free", expiresAtMs: null }, dayAgo)).key.id;
  };
  const [used, unused] = [await old("used"), await old("unused")];
  await newKey("~new");
  const weekAgo = new Date(todayMs - 7 * DAY_MS).toISOString().slice(0, 10);
  await use(used, before, [1, 0, 0]);
  await use(unused, weekAgo, [1, 0, 0]);
  const ids = async (line: string) => (await json(line)).map(({ id }: { id: string }) => id);
  const found = await ids("keys list --unused 7");
  expect([found.includes(unused), found.includes(used)]).toEqual([true, false]);
  expect((await json("keys list --unused 7 --search ~new")).length).toBe(0);
  expect(await ids("keys list --unused 1 --search used")).toEqual(expect.arrayContaining([used, unused]));
  // Since the secret was made: a rotation makes another one.
  const never = await old("never");
  const named = async (name: string) => (await ids(`keys list --search ${name} --unused`)).includes(never);
  expect([await named("never"), await ids("keys list --search used --unused")]).toEqual([true, []]);
  await use(never, before, [0, 1, 0]);
  expect(await named("never")).toBe(false);
  await run(`keys rotate ${never} --yes`);
  expect(await named("never")).toBe(true);
  await use(never, today, [0, 0, 0]);
  const later = "UPDATE key_usage SET last_admitted_ms = ?2 WHERE key_id = ?1 AND day = ?3";
  await database
    .prepare(later)
    .bind(never, Date.now() + 1_000, today)
    .run();
  expect(await named("never")).toBe(false);
});

it("usage ID has a line for each day, also for those without requests, with a bar", async () => {
  const id = await newKey("Ann");
  await use(id, today, [15, 4, 1]);
  await use(id, before, [1, 0, 0]);
  expect((await run(`usage ${id} --days 3`)).stdout).toBe(
    `DATE        ADMITTED #  REFUSED BY MINUTE -  BY DAY x
${before}           1                    0         0  #
${yesterday}           0                    0         0
${today}          15                    4         1  ${"#".repeat(15)}----x
`,
  );
  const [first, second] = await json(`usage ${id} --days 3`);
  const counts = { admitted: 0, refusedBy: { minute: 0, day: 0 }, busiest: { minute: null } };
  expect(second).toEqual({
    date: yesterday,
    ...counts,
    usedUp: [],
    lastAdmittedAt: null,
    lastRefusedAt: null,
  });
  expect(first).toMatchObject({ date: before, admitted: 1, lastAdmittedAt: `${before}T00:00:01Z` });
  expect(await run("usage key_000000000000")).toMatchObject({
    exitCode: 1,
    stderr: "error: there is no key key_000000000000: see ./petstore keys list --preview staging\n",
  });
  const refused = await run(`usage ${id} --top 5`);
  expect([refused.exitCode, refused.stderr]).toEqual([2, expect.stringContaining("leave out the ID, or")]);
});

it("usage says that no key was used", async () => {
  expect(await run("usage")).toMatchObject({ exitCode: 0, stdout: "", stderr: `No key was used. ${NOTE}` });
  expect(await json("usage")).toEqual([]);
});

it("keys show answers why a client was refused: counts of today, limits and since when, ban and suspension", async () => {
  const id = await newKey("Ann");
  await use(id, today, [40, 12, 3]);
  await use(id, yesterday, [9, 1, 0]);
  const at = Date.now() - 3_600_000;
  const change = database.prepare(
    "INSERT INTO key_changes (key_id, at_ms, change, to_value, changed_by) VALUES (?1, ?2, ?3, ?4, 'Jo')",
  );
  await database.batch([
    change.bind(id, at, "plan", "free"),
    change.bind(id, at + 1_000, "banned", formatTime(at + 601_000)),
    change.bind(id, at + 2_000, "suspended", "an earlier reason"),
    change.bind(id, at + 3_000, "resumed", null),
  ]);
  const setSuspended = (ms: number | null) =>
    database.prepare("UPDATE keys SET suspended_at_ms = ?2 WHERE id = ?1").bind(id, ms).run();
  // Without a record, as in a full database.
  await setSuspended(1);
  const { stdout } = await run(`keys show ${id}`);
  const lines = stdout.split("\n").map((line) => line.replace(/ {2,}/, ": "));
  expect(lines).toEqual(
    expect.arrayContaining([
      `Plan: free plan, 60 requests per minute, 1000 per day, since ${formatTime(at)}`,
      `Ban: none in force; the last began ${formatTime(at + 1_000)}, 1 in the last 30 days`,
      "Suspended: its time and reason are not recorded, because the database was full",
      `Admitted: 40 today, last ${today}T00:00:01Z`,
      `Refused: 12 by minute, 3 by day today; last ${today}T00:00:02Z`,
    ]),
  );
  const details = await json(`keys show ${id}`);
  expect(details).toMatchObject({ limitsSince: formatTime(at), lastBanAt: formatTime(at + 1_000) });
  expect(details).toMatchObject({ suspension: null, lastRefusedAt: `${today}T00:00:02Z` });
  expect(details.days.slice(-2)).toMatchObject([{ admitted: 9 }, { date: today, refusedBy: { day: 3 } }]);
  expect(stdout).not.toContain("earlier day");
  const monthAgo = formatTime(todayMs - 30 * DAY_MS).slice(0, 10);
  await use(id, monthAgo, [8, 0, 0]);
  expect((await run(`keys show ${id}`)).stdout).toContain(
    `\n1 earlier day with requests: ./petstore usage ${id} --days 400 --preview staging\n`,
  );
  expect((await json(`keys show ${id}`)).days[0]).toMatchObject({ date: monthAgo, admitted: 8 });

  await setSuspended(at + 4_000);
  await change.bind(id, at + 4_000, "suspended", "the invoice is open").run();
  await change.bind(id, Date.now(), "banned", formatTime(Date.now() + 600_000)).run();
  const suspended = (await run(`keys show ${id}`)).stdout;
  expect(suspended).toMatch(
    new RegExp(`\nSuspended +${formatTime(at + 4_000)} by Jo: the invoice is open\n`),
  );
  expect(suspended).toMatch(/\nBan +until \d{4}-\S+Z; the last began \d{4}-\S+Z, 2 in the last 30 days\n/);
  expect(await json(`keys show ${id}`)).toMatchObject({
    suspension: { at: formatTime(at + 4_000), by: "Jo", reason: "the invoice is open" },
  });
  await setSuspended(null);
  expect(await json(`keys show ${id}`)).toMatchObject({ state: "banned", suspension: null });
});
