// ./petstore dashboard: its pages in a browser and without one, who may see them, and what they say if something can't be read.

import { once } from "node:events";
import { existsSync, openSync } from "node:fs";
import { chmod, mkdtemp, readFile, rm, stat, truncate, writeFile } from "node:fs/promises";
import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { createDatabases, databaseFile, migrate, type Target } from "../../scripts/cloudflare/database.ts";
import { newApp } from "../../scripts/dashboard/app.ts";
import { Readings } from "../../scripts/dashboard/readings.ts";
import { serve } from "../../scripts/dashboard/server.ts";
import { formatTime } from "../../scripts/lib/time.ts";
import { DAY_MS } from "../../src/limits/protocol.ts";
import { createKey, rotateKey, setNote, suspendKey } from "../../src/operators/admin.ts";
import type { NewKey } from "../../src/operators/changes.ts";
import { CHROMIUM, openBrowser } from "../support/e2e/browser.ts";
import { apiError } from "../support/e2e/cloudflare-api.ts";
import { failure, runPetstore } from "../support/e2e/in-process.ts";
import { expectUsable, pageOpener } from "../support/e2e/pages.ts";
import { emptyState, startPetstore } from "../support/e2e/petstore.ts";
import { useAccount } from "../support/e2e/use-account.ts";

const HOSTILE = [
  "<script>window.hit = 1</script>",
  "<img src=x onerror='window.hit = 1'>",
  "' onmouseover='window.hit = 1",
  "=HYPERLINK(A1)",
  "+1",
  "-1",
  "@SUM(1)",
  "\u001b[31mred\u0007",
  "\u202egnp.exe",
  'a\nb,"c"',
  "{{title}} &amp; `",
];

const { api, databaseOf } = await useAccount();
const { state, remove } = await emptyState();
const LOCAL: Target = { kind: "local", state };
const todayMs = Math.floor(Date.now() / DAY_MS) * DAY_MS;
const dayText = (daysAgo: number) => new Date(todayMs - daysAgo * DAY_MS).toISOString().slice(0, 10);
const operator = (atMs = Date.now()) => ({ by: "Ann <b>", nowMs: atMs });

let browser: Browser;
/** Ids by name. */
const ids: Record<string, string> = {};

async function addKey(keys: D1Database, name: string, more: Partial<NewKey> = {}) {
  const newKey = { name: "a test", plan: "free" as const, expiresAtMs: null, ...more };
  const { key, secret } = await createKey(keys, newKey, operator());
  // A restored backup, or another tool, can have names that commands refuse.
  const update = "UPDATE keys SET name = ?2, folded_name = lower(?2) WHERE id = ?1";
  await keys.prepare(update).bind(key.id, name).run();
  ids[name] = key.id;
  return { id: key.id, secret };
}

type Counts = { admitted: number; minute?: number; day?: number; busiest: number };

async function use(
  keys: D1Database,
  id: string,
  daysAgo: number,
  { admitted, minute = 0, day = 0, busiest }: Counts,
) {
  const refused = minute + day > 0 ? todayMs - daysAgo * DAY_MS + 2_000 : null;
  const insert = keys.prepare("INSERT INTO key_usage VALUES (?1, ?2, 'a', 1, ?3, ?4, ?5, ?6, ?7, 0)");
  const counts = [JSON.stringify({ minute, day }), JSON.stringify({ minute: busiest })];
  await insert
    .bind(dayText(daysAgo), id, admitted, ...counts, todayMs - daysAgo * DAY_MS + 1_000, refused)
    .run();
}

beforeAll(async () => {
  await fill(LOCAL, addKeys);
  if (CHROMIUM !== undefined) browser = await openBrowser();
});

/** Local databases that do not exist yet, until the test ends. */
async function newTarget() {
  const { state: folder, remove: removeFolder } = await emptyState();
  onTestFinished(removeFolder);
  return { kind: "local", state: folder } as const;
}

/** Creates the databases of a target, and writes into that of the keys. */
async function fill(target: Target, write: (keys: D1Database) => Promise<unknown>): Promise<void> {
  const { keys, pets, close } = await createDatabases(target, "keys", "pets");
  await migrate(keys, "keys");
  await migrate(pets, "pets");
  await write(keys).finally(close);
}

async function addKeys(keys: D1Database): Promise<void> {
  for (const name of HOSTILE) await addKey(keys, name, { note: name.slice(0, 200), ref: "cus_1" });
  const { id: busy } = await addKey(keys, "Busy & Co", { plan: "pro", ref: "cus_4711" });
  await use(keys, busy, 0, { admitted: 9_000, minute: 40, day: 0, busiest: 340 });
  await use(keys, busy, 3, { admitted: 10_000, minute: 0, day: 7, busiest: 100 });
  const { id: full } = await addKey(keys, "Full", { expiresAtMs: Date.now() + 20 * DAY_MS });
  for (const daysAgo of [1, 2, 4]) await use(keys, full, daysAgo, { admitted: 1_000, busiest: 59 });
  const { id: banned } = await addKey(keys, "Banned", { access: "read" });
  await use(keys, banned, 0, { admitted: 60, minute: 500, busiest: 560 });
  const until = formatTime(Date.now() + 600_000);
  const ban =
    "INSERT INTO key_changes (key_id, at_ms, change, to_value, changed_by) VALUES (?1, ?2, 'banned', ?3, 'rate limiter')";
  await keys.prepare(ban).bind(banned, Date.now(), until).run();
  const { id: suspended } = await addKey(keys, "Suspended", { note: "Pays B\u00fcrgli" });
  await suspendKey(keys, suspended, "leaked <i>", false, operator());
  const { id: rotated, secret } = await addKey(keys, "Rotated");
  ids.replaced = secret.slice(-4);
  await rotateKey(keys, rotated, 0, operator());
  await use(keys, "key_0123456789Ab", 5, { admitted: 3, busiest: 3 });
  for (let index = 0; index < 100; index += 1) await addKey(keys, `k${index}`);
}

afterAll(async () => {
  await browser?.close();
  await remove();
});

/** The dashboard of some databases, until the test ends. */
async function dashboard(target = LOCAL) {
  const readings = new Readings(target, undefined);
  const { origin, close } = await serve(newApp(readings, "the-token"), 0);
  onTestFinished(() => Promise.all([close(), readings.close()]).then(() => {}));
  const get = async (path: string) => {
    const response = await fetch(`${origin}/the-token${path}`);
    return { status: response.status, headers: response.headers, text: await response.text() };
  };
  /** The text of a page, without markup. */
  const textOf = async (path: string) => (await get(path)).text.replace(/<[^>]*>/g, " ").replace(/\s+/g, " ");
  /** The rows of the list as CSV, by the names of the columns. */
  const rowsOf = async (query: string) => {
    const [header = [], ...rows] = parsed((await get(`/keys.csv?${query}`)).text);
    return rows.map((row) => Object.fromEntries(header.map((name, index) => [name, row[index] ?? ""])));
  };
  return { origin, get, textOf, rowsOf };
}

/** Lines of CSV, as RFC 4180 has them. */
function parsed(csv: string): string[][] {
  return csv
    .trimEnd()
    .split("\n")
    .map((line) =>
      [...line.matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^,]*))/g)].map(
        ([, quoted, plain]) => quoted?.replaceAll('""', '"') ?? plain ?? "",
      ),
    );
}

const local = (words: string) => runPetstore([...words.split(" "), "--persist-to", state]);

describe("the list of keys", () => {
  it("has every key, with the figures of usage, and those of a deleted key", async () => {
    const { rowsOf, get, origin } = await dashboard();
    const csv = (await get("/keys.csv")).text.split("\n");
    const { stdout } = await local("usage --days 30 --csv");
    const [header, ...used] = stdout.trimEnd().split("\n");
    expect(csv[0]).toBe(`${header},state,bans,expires,created`);
    expect(used.length).toBe(4);
    for (const line of used) expect(csv.filter((each) => each.startsWith(`${line},`))).toHaveLength(1);
    // Excel takes it for UTF-8 by its first bytes.
    const bytes = await (await fetch(`${origin}/the-token/keys.csv`)).bytes();
    expect([...bytes.slice(0, 3)]).toEqual([0xef, 0xbb, 0xbf]);
    const listed: { id: string }[] = JSON.parse((await local("keys list --json")).stdout);
    const rows = await rowsOf("");
    expect(rows.map(({ id }) => id).sort()).toEqual(
      [...listed.map(({ id }) => id), "key_0123456789Ab"].sort(),
    );
    expect(rows.find(({ id }) => id === ids.Full)).toMatchObject({
      state: "active expiring",
      admitted: "3000",
      enough: "pro",
    });
    expect(rows.find(({ id }) => id === ids.k7)).toMatchObject({
      admitted: "0",
      enough: "free",
      last_used: "",
    });
  });

  it("can be ordered by what an operator looks for", async () => {
    const orders: Record<string, (row: Record<string, string>) => number> = {
      admitted: (row) => Number(row.admitted),
      refused: (row) => Number(row.refused_by_minute) + Number(row.refused_by_day),
      "at-limit": (row) => Math.max(Number(row.days_at_limit_per_minute), Number(row.days_at_limit_per_day)),
      share: (row) => Number(row.share_of_day || -1),
      "fullest minute": (row) => (row.per_minute ? Number(row.busiest_minute) / Number(row.per_minute) : -1),
      bans: (row) => Number(row.bans),
      expires: (row) => -Date.parse(row.expires || "2999-01-01"),
      "last-used": (row) => Date.parse(row.last_used || "1970-01-01"),
      created: (row) => Date.parse(row.created || "1970-01-01"),
    };
    const { rowsOf } = await dashboard();
    for (const [sort, of] of Object.entries(orders)) {
      const values = (await rowsOf(`${new URLSearchParams({ sort })}`)).map(of);
      expect([sort, values]).toEqual([sort, values.toSorted((a, b) => b - a)]);
      expect(new Set(values).size, sort).toBeGreaterThan(1);
    }
  });

  it("finds what keys list does, a replaced key by its last four characters, and says if nothing matches", async () => {
    const { rowsOf, textOf } = await dashboard();
    for (const [query, names] of [
      ["search=BUSY", ["Busy & Co"]],
      ["search=CUS_47", ["Busy & Co"]],
      ["search=PAYS%20b\u00dcrGl", ["Suspended"]],
      ["search=%20Full%20", ["Full"]],
      ["state=suspended", ["Suspended"]],
      ["state=banned", ["Banned"]],
      ["plan=pro", ["Busy & Co"]],
      ["state=suspended&plan=pro", []],
      ["search=Full&state=nonsense&plan=%00&sort=x&days=-1&page=x", ["Full"]],
    ] as const)
      expect([query, (await rowsOf(query)).map(({ name }) => name)]).toEqual([query, names]);
    expect((await rowsOf(`search=${ids.replaced}`)).map(({ id }) => id)).toContain(ids.Rotated);
    expect(await textOf("/?search=nobody")).toContain("No key matches.");
  });

  it("does not link a deleted key, and shows the last page for one after it", async () => {
    const { get, textOf } = await dashboard();
    expect((await get("/?sort=last-used")).text).not.toContain("/keys/key_0123456789Ab");
    expect(await textOf("/?sort=last-used")).toContain("a deleted key key_0123456789Ab");
    const last = await textOf("/?page=1000000000");
    expect([last.includes("Previous keys"), last.includes("No key matches.")]).toEqual([true, false]);
  });

  it("has pages of 50 keys, and each key on one of them", async () => {
    const { get } = await dashboard();
    const found = new Set<string>();
    let pages = 0;
    for (let link = "/?search=k&sort=created"; ; pages += 1) {
      const { text } = await get(link);
      for (const [, id = ""] of text.matchAll(/\/keys\/(key_\w{12})"/g)) found.add(id);
      const next = text.match(/href="\/the-token(\/\?[^"]*)">Next keys/)?.[1];
      if (next === undefined) break;
      link = next.replaceAll("&amp;", "&");
    }
    const listed: { id: string }[] = JSON.parse((await local("keys list --search k --json")).stdout);
    expect([found.size, pages]).toEqual([listed.length, Math.ceil(listed.length / 50) - 1]);
    expect(found.size).toBeGreaterThan(100);
  });
});

it("names, notes, refs and recorded texts stay texts: no markup, no control character, no formula", async () => {
  const { get, rowsOf } = await dashboard();
  const pages = ["/", "/?sort=created&page=2", "/?search=cus_1", "/service"];
  for (const path of [...pages, ...HOSTILE.map((name) => `/keys/${ids[name]}`), `/keys/${ids.Suspended}`]) {
    const { status, headers, text } = await get(path);
    expect([path, status]).toEqual([path, 200]);
    expect(headers.get("Content-Security-Policy")).toContain("default-src 'none'");
    expect(text).not.toMatch(/<script|<img|<i>|<b>| on\w+='/);
    expect(text).not.toMatch(/(?![\n\t])[\p{Cc}\p{Cf}]/u);
  }
  expect((await get(`/keys/${ids.Suspended}`)).text).toContain("leaked &lt;i&gt;");
  expect((await get("/?search=cus_1")).text).toContain("&lt;script&gt;window.hit = 1&lt;/script&gt;");
  const rows = await rowsOf("search=cus_1");
  expect(rows).toHaveLength(HOSTILE.length);
  for (const row of rows) for (const field of Object.values(row)) expect(field).not.toMatch(/^[=+\-@]/);
  expect(rows.map(({ name }) => name)).toEqual(
    expect.arrayContaining(["'=HYPERLINK(A1)", "'+1", "'-1", "'@SUM(1)", 'a?b,"c"']),
  );
});

describe("who may see it", () => {
  /** A request as fetch can't send it. */
  async function ask(origin: string, path: string, headers: Record<string, string>, method = "GET") {
    const { port } = new URL(origin);
    const sent = request({ host: "127.0.0.1", port, path, headers, method, setHost: false }).end();
    const [response] = await once(sent, "response");
    response.resume();
    return response.statusCode;
  }

  it("is who has the address, by a loopback host; and nothing can be sent", async () => {
    const { origin } = await dashboard();
    const { host, port } = new URL(origin);
    const at = (path: string, headers: Record<string, string> = { Host: host }, method?: string) =>
      ask(origin, path, headers, method);
    expect(await at("/the-token/")).toBe(200);
    expect(await at("/the-token/", { Host: `localhost:${port}` })).toBe(200);
    for (const path of [
      "/",
      "/service",
      "/the-toke",
      "/the-token2/",
      "/THE-TOKEN/",
      "//the-token/",
      "/x/../the-tok/",
      "/style.css",
    ])
      expect([path, await at(path)]).toEqual([path, 404]);
    // Names that resolve to this machine, as in DNS rebinding, and no name.
    for (const headers of [
      { Host: "evil.example" },
      { Host: `evil.example:${port}` },
      { Host: "127.0.0.1" },
      { Host: `127.0.0.1.evil.example:${port}` },
      {},
    ] as Record<string, string>[])
      expect([headers, await at("/the-token/", headers)]).toEqual([
        headers,
        "Host" in headers ? 403 : expect.toBeOneOf([400, 403]),
      ]);
    for (const method of ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
      expect(await at("/the-token/", { Host: host }, method)).toBe(405);
    expect(await at("http://evil.example/the-token/")).toBe(400);
    expect(await at("/the-token/keys/..%2f..%2fetc%2fpasswd")).toBe(404);
    expect(await at("/the-token/keys/key_000000000000")).toBe(200);
  });

  it("no page of another site can frame it or learn its address, and no cache keeps it", async () => {
    const { get } = await dashboard();
    const { headers } = await get("/");
    expect(Object.fromEntries(headers)).toMatchObject({
      "cache-control": "no-store",
      "referrer-policy": "no-referrer",
      "x-content-type-options": "nosniff",
      "cross-origin-resource-policy": "same-origin",
    });
    expect(headers.get("Content-Security-Policy")).toContain("frame-ancestors 'none'");
  });
});

describe("one key", () => {
  it("says why it is refused, by today's counts, its state, its access and its ban", async () => {
    const { textOf } = await dashboard();
    const busy = await textOf(`/keys/${ids["Busy & Co"]}`);
    expect(busy).toContain(
      "429, the limit per minute 40 refused today. 340 of 300 in the fullest minute of today",
    );
    expect(busy).toContain("429, the limit per day 0 refused today. 9,000 of 10,000 today");
    expect(busy).toContain("A limit was used up on 2 days.");
    expect(busy).toMatch(/The plan business would have been enough for these requests\./);
    expect(busy).toMatch(/429, a ban None is in force *\./);
    const banned = await textOf(`/keys/${ids.Banned}`);
    expect(banned).toMatch(/429, a ban Until \d{4}-\S+Z *; the last began/);
    expect(banned).toContain("403, its access It may only read.");
    expect(banned).toContain(`./petstore keys unban ${ids.Banned} --persist-to ${state}`);
    const suspended = await textOf(`/keys/${ids.Suspended}`);
    expect(suspended).toMatch(
      /401, the key itself It is suspended *: since \S+Z, for the reason &quot;leaked &lt;i&gt;&quot;/,
    );
    expect(suspended).toContain(`./petstore keys resume ${ids.Suspended} --persist-to`);
    expect(await textOf(`/keys/${ids.k1}`)).toContain(
      "No limit was used up: a larger plan would have changed nothing.",
    );
  });

  it("says that a key without limits gets a 503, and of no plan that it was enough", async () => {
    const { keys, close } = await createDatabases(LOCAL, "keys");
    const { id } = await addKey(keys, "Later");
    await use(keys, id, 0, { admitted: 50, busiest: 50 });
    await keys.prepare("UPDATE keys SET plan = 'of-later' WHERE id = ?1").bind(id).run();
    await close();
    const { textOf } = await dashboard();
    const text = await textOf(`/keys/${id}`);
    expect(text).toContain(`503, no limits the key ${id} has no limits: its plan, of-later, is unknown`);
    expect(text).not.toMatch(/enough|50 of/);
    expect(await textOf("/?search=Later")).toContain("of-later without limits");
  });

  it("has the command that ends replaced secrets, and says by which ending they are known", async () => {
    const { keys, close } = await createDatabases(LOCAL, "keys");
    const { id, secret } = await addKey(keys, "In grace");
    await rotateKey(keys, id, 3_600_000, operator()).finally(close);
    const text = await (await dashboard()).textOf(`/keys/${id}`);
    expect(text).toMatch(new RegExp(`Old keys that ending in ${secret.slice(-4)} works until \\d{4}-\\S+Z`));
    expect(text).toContain(`./petstore keys end-grace ${id} --persist-to`);
  });

  it("has the facts and the changes of keys show", async () => {
    const { textOf } = await dashboard();
    const text = await textOf(`/keys/${ids.Suspended}`);
    const { changes, createdAt, lastFour } = JSON.parse(
      (await local(`keys show ${ids.Suspended} --json`)).stdout,
    );
    for (const part of [
      createdAt,
      `ends in ${lastFour}`,
      "Ann &lt;b&gt;",
      `Changes: ${changes.length} of ${changes.length}`,
    ])
      expect(text).toContain(part);
    for (const { at, change } of changes) expect(text).toContain(`${at} ${change}`);
  });
});

it("the service has the requests of all days, the state of the databases, and the queries of the alerts", async () => {
  const { textOf } = await dashboard();
  const text = await textOf("/service");
  const totals: { admitted: number }[] = JSON.parse((await local("usage --total --days 30 --json")).stdout);
  const admitted = totals.reduce((sum, day) => sum + day.admitted, 0);
  const { stdout } = await local("status");
  expect(text).toMatch(/Backup none yet/);
  expect(text).toContain(stdout.match(/^Keys +(\d.*)$/m)?.[1]);
  const html = await (await dashboard()).get("/service");
  expect(html.text).toContain(`in total ${admitted.toLocaleString("en")} admitted`);
  for (const name of ["Failures", "Errors", "Database", "Quotas"])
    expect(html.text).toContain(`<summary>${name}</summary>`);
  expect(html.text).not.toContain('aria-label="Tables"');
  expect(await textOf("/service?tables=count")).toMatch(/keys\.keys 1\d\d /);
});

it("says how old its figures are, and reads again only if it is asked to", async () => {
  const { textOf, get } = await dashboard();
  expect(await textOf(`/keys/${ids.k2}`)).toMatch(/Read at \d{4}-\S+Z *, (now|\d seconds? ago|in 0 seconds)/);
  const { keys, close } = await createDatabases(LOCAL, "keys");
  await setNote(keys, ids.k2 ?? "", "noted later", operator()).finally(close);
  expect(await textOf(`/keys/${ids.k2}`)).not.toContain("noted later");
  // The other pages are read again too.
  const again = await get("/?read=again");
  expect(again.text).not.toContain("read=again&read=again");
  expect(await textOf(`/keys/${ids.k2}`)).toContain("noted later");
});

it("is as old as the oldest of its figures", async () => {
  vi.useFakeTimers({ toFake: ["Date"] });
  onTestFinished(() => void vi.useRealTimers());
  const { textOf } = await dashboard();
  await textOf("/");
  vi.setSystemTime(Date.now() + 7_200_000);
  // The keys are read now, and their usage is that of the first page.
  expect(await textOf("/?search=Full")).toMatch(/Read at \S+ *, 2 hours ago\./);
  expect(await textOf("/?search=Full&read=again")).toMatch(/Read at \S+ *, 0 seconds ago\./);
});

it("reads a database that has replaced another one", async () => {
  const target = await newTarget();
  await fill(target, (keys) => addKey(keys, "the first"));
  const { textOf } = await dashboard(target);
  expect(await textOf("/")).toContain("the first");
  await rm(target.state, { recursive: true });
  await fill(target, (keys) => addKey(keys, "the second"));
  expect(await textOf("/?read=again")).toContain("the second");
});

it("reads again when the browser reloads a page", async () => {
  const { origin, textOf } = await dashboard();
  const path = `/keys/${ids.k3}`;
  await textOf(path);
  const { keys, close } = await createDatabases(LOCAL, "keys");
  await setNote(keys, ids.k3 ?? "", "noted later", operator()).finally(close);
  await fetch(`${origin}/the-token/style.css`, { headers: { "Cache-Control": "max-age=0" } });
  expect(await textOf(path)).not.toContain("noted later");
  const reloaded = await fetch(`${origin}/the-token${path}`, { headers: { "Cache-Control": "max-age=0" } });
  expect(await reloaded.text()).toContain("noted later");
});

describe("what can't be read is said in its place", () => {
  it("a damaged database of pets, beside the one of keys; and the next page tries again", async () => {
    const target = await newTarget();
    await fill(target, (keys) => addKey(keys, "kept"));
    const file = databaseFile(target.state, "pets");
    const whole = await readFile(file);
    await truncate(file, 5_000);
    const { textOf } = await dashboard(target);
    const text = await textOf("/service");
    expect(text).toMatch(/Pets database unknown: the database of pets is damaged/);
    expect(text).toMatch(/Keys 1: 1 active/);
    expect(await textOf("/")).toContain("kept");
    await writeFile(file, whole);
    expect(await textOf("/service?read=again")).not.toContain("is damaged");
  });

  it("the usage of keys, if its table is lost; the service has the rest", async () => {
    const target = await newTarget();
    await fill(target, async (keys) => {
      await addKey(keys, "kept");
      await keys.prepare("DROP TABLE key_usage").run();
    });
    const { textOf, get } = await dashboard(target);
    expect(await textOf("/")).toMatch(/The list of keys can't be shown: .*no such table: key_usage/);
    const csv = await get("/keys.csv");
    expect([csv.status, csv.headers.get("Content-Disposition")]).toEqual([500, null]);
    expect(await textOf(`/keys/${ids.kept}`)).toMatch(/The key can't be shown/);
    const text = await textOf("/service");
    expect(text).toMatch(/What was admitted and refused on each day can't be shown/);
    expect(text).toMatch(/its tables are lost: key_usage/);
  });
});

describe("production's databases", () => {
  it("are read with few calls, and not again by the next page", async () => {
    const target: Target = { kind: "production" };
    const keys = databaseOf("petstore-keys");
    await migrate(keys, "keys");
    await migrate(databaseOf("petstore-pets"), "pets");
    for (let index = 0; index < 60; index += 1) await addKey(keys, `p${index}`);
    let calls = 0;
    api.intercept(async (_, __, send) => {
      calls += 1;
      await send();
    });
    onTestFinished(() => api.intercept());
    const { textOf } = await dashboard(target);
    expect(await textOf("/")).toContain("60 keys, 50 of them here");
    const first = calls;
    // Looking up the database; the keys, their usage and the charts.
    expect(first).toBeLessThanOrEqual(5);
    await textOf("/");
    await textOf("/?sort=refused");
    // Another order needs the charts of other keys.
    expect(calls - first).toBeLessThanOrEqual(1);
  });

  it("that could not be opened are tried again by the next page", async () => {
    api.intercept(async () => {
      throw apiError(503, 10_001, "Unable to reach the API");
    });
    onTestFinished(() => api.intercept());
    const { textOf } = await dashboard({ kind: "production" });
    expect(await textOf("/")).toContain(
      "The list of keys can't be shown: Cloudflare&#39;s API refused: Unable",
    );
    api.intercept();
    expect(await textOf("/")).toMatch(/\d keys/);
  });
});

describe("the command", () => {
  /** Runs it until a signal, and hands over its address. */
  async function run(words: string[], use: (address: string) => Promise<void>, shell = "") {
    const { child, ended } = startPetstore(["dashboard", "--persist-to", state, ...words], { shell });
    onTestFinished(() => void child.kill());
    const printed = { stdout: "", stderr: "" };
    const announced = new Promise<void>((resolve) => {
      for (const name of ["stdout", "stderr"] as const)
        child[name]?.on("data", (chunk) => {
          printed[name] += chunk;
          if (printed.stdout.endsWith("\n") && printed.stderr.includes("Ctrl+C ends it.\n")) resolve();
        });
    });
    await Promise.race([announced, ended]);
    await use(printed.stdout.trim()).finally(() => child.kill("SIGTERM"));
    return { printed: printed.stdout, ...(await ended) };
  }

  it("prints an address of its own, serves until a signal, and ends with exit code 0, also without a browser", async () => {
    const addresses: string[] = [];
    const isLinux = process.platform === "linux";
    const noBrowser = isLinux ? "No browser was opened (spawn xdg-open ENOENT).\n" : "";
    for (const [words, shell, said] of [
      [["--print-only"], "", ""],
      [isLinux ? [] : ["--print-only"], "PATH=/nowhere", noBrowser],
    ] as const) {
      const use = async (address: string) => {
        addresses.push(address);
        expect((await fetch(address)).status).toBe(200);
        expect((await fetch(address.replace(/[^/]+\/$/, "AAAAAAAAAAAAAAAAAAAAAA/"))).status).toBe(404);
      };
      const { printed, exit, using, stderr } = await run([...words], use, shell);
      expect(printed).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/[\w-]{22}\/\n$/);
      expect([exit, using]).toEqual([0, `Using the local databases in ${state}.\n`]);
      expect(stderr.replace(said, "")).toBe("Opening the databases\nCtrl+C ends it.\n");
      expect(stderr).toContain(said);
    }
    const [first, second] = addresses.map((address) => new URL(address).pathname);
    expect(first).not.toBe(second);
    await expect(fetch(addresses[0] ?? "")).rejects.toThrow();
  });

  it.runIf(existsSync("/dev/full"))("fails if its address can't be written", async () => {
    const words = ["dashboard", "--persist-to", state, "--print-only"];
    const { ended } = startPetstore(words, { stdout: openSync("/dev/full", "w") });
    const stderr = expect.stringContaining("error: the output could not be written");
    expect(await ended).toMatchObject({ exit: 1, stderr });
  });

  it("refuses a port that another program uses", async () => {
    const other = createServer().listen(0, "127.0.0.1");
    await once(other, "listening");
    const { port } = other.address() as AddressInfo;
    const words = ["dashboard", "--persist-to", state, "--print-only", "--port", `${port}`];
    const outcome = await runPetstore(words);
    other.close();
    const problem = `error: port ${port} can't be used (another program uses it): choose another with --port, or none\n`;
    expect(outcome).toMatchObject(failure(2, problem));
  });

  it.skipIf(process.platform !== "linux")(
    "opens the browser by a file that only this user can read, without the token in a command line",
    async () => {
      const folder = await mkdtemp(join(tmpdir(), "petstore-test-"));
      onTestFinished(() => rm(folder, { recursive: true }));
      // It goes on, as a browser does, and does not keep the dashboard from ending.
      const script = `#!/bin/sh\necho $$ > ${folder}/pid\necho "$@" > ${folder}/opened\nexec /bin/sleep 600\n`;
      await writeFile(join(folder, "xdg-open"), script);
      onTestFinished(async () => void process.kill(Number(await readFile(join(folder, "pid"), "utf8"))));
      await chmod(join(folder, "xdg-open"), 0o755);
      let file = "";
      await run(
        [],
        async (address) => {
          await expect.poll(() => readFile(join(folder, "opened"), "utf8").catch(() => "")).not.toBe("");
          const opened = (await readFile(join(folder, "opened"), "utf8")).trim();
          expect(opened).toMatch(/^file:\/\/\S+\.html$/);
          file = fileURLToPath(opened);
          expect(await readFile(file, "utf8")).toContain(`url=${address}"`);
          expect((await stat(file)).mode & 0o077).toBe(0);
        },
        `PATH=${folder}:$PATH`,
      );
      await expect(stat(file)).rejects.toThrow("ENOENT");
    },
  );

  it("names a missing database as other commands do", async () => {
    const outcome = await runPetstore(["dashboard", "--print-only", "--persist-to", `${state}-nowhere`]);
    expect(outcome).toMatchObject(failure(1, "create it with ./petstore migrate --persist-to"));
  });
});

describe.skipIf(CHROMIUM === undefined)("in a browser", () => {
  it("each page fits into the window, axe-core finds nothing, and no script runs", async () => {
    const page = await pageOpener(await dashboard(), () => browser)("/the-token/?search=cus_1");
    const hasNoScript = () => page.evaluate("window.hit === undefined && document.scripts.length === 0");
    expect(await hasNoScript()).toBe(true);
    for (const path of [
      `keys/${ids[HOSTILE[1] ?? ""]}`,
      `keys/${ids["Busy & Co"]}`,
      "service?tables=count",
      "",
    ]) {
      await page.goto(new URL(`/the-token/${path}`, page.url()).href);
      expect(await hasNoScript()).toBe(true);
      // The page of the hostile key has the parts of the other one.
      if (!path.includes(ids[HOSTILE[1] ?? ""] ?? "-")) await expectUsable(page);
    }
  });

  it("the form searches and orders, a link leads to the key, and Read again back to the same page", async () => {
    const service = await dashboard();
    const page = await pageOpener(service, () => browser)("/the-token/");
    await page.getByLabel("Name, ref, note, ID, last four").fill("busy");
    await page.getByLabel("Order").selectOption("refused");
    await page.getByRole("button", { name: "Show" }).click();
    await page.getByRole("link", { name: "Read again" }).click();
    expect(new URL(page.url()).searchParams.get("sort")).toBe("refused");
    expect(await page.getByRole("row").count()).toBe(2);
    await page.getByRole("link", { name: "Busy & Co" }).click();
    expect(await page.getByRole("heading", { level: 1 }).textContent()).toBe("Busy & Co");
    await page.getByText("Show as a table").click();
    expect(await page.getByRole("cell", { name: "10,000" }).first().isVisible()).toBe(true);
    await page.getByRole("link", { name: "Service" }).click();
    expect(await page.getByRole("heading", { level: 1 }).textContent()).toBe("Service");
  });
});
