// The static assets as served, and the usage page in a browser against the service. The reference page: reference.test.ts. Texts and charts
// alone: test/unit/site.test.ts.

import { existsSync } from "node:fs";
import { copyFile, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { gunzipSync, gzipSync } from "node:zlib";
import type { Browser, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { VERSION } from "../../client/src/version.ts";
import { HEADER } from "../../src/http/header-names.ts";
import { forEachWindow } from "../../src/keys/plans.ts";
import { MAX_LIMIT } from "../../src/limits/windows.ts";
import { openApiDocument } from "../../src/openapi/document.ts";
import { EXAMPLE_MS, EXAMPLE_USAGE } from "../../src/openapi/examples.ts";
import { fillGuide } from "../../src/openapi/guide.ts";
import { guideAsHtml } from "../../src/openapi/html.ts";
import { MALFORMED_KEY } from "../../src/site/key.ts";
import { UNREACHABLE } from "../../src/site/text.ts";
import {
  answerUsage,
  CHROMIUM,
  callCounter,
  holdBack,
  keyField,
  openBrowser,
} from "../support/e2e/browser.ts";
import { expectUsable, pageOpener } from "../support/e2e/pages.ts";
import { copyProject, runProcess } from "../support/e2e/petstore.ts";
import { sharedPetstore } from "../support/e2e/shared-petstore.ts";
import { refusedBy } from "../support/key-record.ts";

if (CHROMIUM === undefined)
  process.stderr.write("Chromium not found: skipping browser tests. Set CHROMIUM to its path.\n");

const petstore = sharedPetstore();
let origin: string;
let key: string;
let guide: string;
let browser: Browser;

beforeAll(async () => {
  ({ origin } = petstore);
  ({ key } = await petstore.newKey("business"));
  guide = fillGuide(await readFile("src/openapi/guide.md", "utf8"));
  if (CHROMIUM !== undefined) browser = await openBrowser();
});

afterAll(() => browser?.close());

const open = pageOpener(petstore, () => browser);

it("/openapi.json is the generated document with the guide", async () => {
  const response = await fetch(`${origin}/openapi.json`);
  expect(await response.json()).toEqual(JSON.parse(JSON.stringify(openApiDocument(guide))));
});

it.each([
  ["/openapi.json", "application/json"],
  ["/guide.md", "text/markdown; charset=utf-8"],
  ["/llms.txt", "text/plain; charset=utf-8"],
])("%s has its type, and other origins can read it, without the Worker", async (path, contentType) => {
  for (const method of ["GET", "HEAD"]) {
    const { status, headers } = await fetch(origin + path, { method });
    expect(status).toBe(200);
    expect(headers.get("Content-Type")).toBe(contentType);
    expect(headers.get("Access-Control-Allow-Origin")).toBe("*");
    expect(headers.get("Cross-Origin-Resource-Policy")).toBe("cross-origin");
    expect(headers.has(HEADER.requestId)).toBe(false);
  }
});

it.each([
  ["/guide.md", "/llms.txt"],
  ["/llms.txt", "/guide.md"],
])("%s is filled in, links %s, and all of its links lead to a page and a part of it", async (path, other) => {
  const text = await (await fetch(origin + path)).text();
  expect(text).toMatch(/^# Petstore.*\n\n> .+\n\n/);
  expect(text).not.toMatch(/\{\{|undefined/);
  const links = [...text.matchAll(/\]\((?!https:)([^)]+)\)/g)].map(
    ([, link = ""]) => new URL(link, origin + path),
  );
  expect(links.map(({ pathname }) => pathname)).toEqual(
    expect.arrayContaining(["/", "/openapi.json", "/usage", other]),
  );
  for (const { href, hash } of links) {
    const response = await fetch(href);
    expect(response.status, href).toBe(200);
    if (hash !== "") expect(guideAsHtml(await response.text()).contents, href).toContain(`href="${hash}"`);
  }
});

it("/llms.txt has the format of llmstxt.org: lists of links in its sections", async () => {
  const [, ...sections] = (await (await fetch(`${origin}/llms.txt`)).text()).split(/^## .+\n/m);
  expect(sections.length).toBeGreaterThan(0);
  for (const section of sections) expect(section).toMatch(/^\n(- \[[^\]]+\]\([^)]+\): .+\n)+\n?$/);
});

it("a build keeps earlier versions of the client, refuses another of a published version, and removes other files", async () => {
  const project = await copyProject();
  onTestFinished(() => rm(project, { recursive: true }));
  const releases = join(project, "client/releases");
  const buildThere = () =>
    runProcess(process.execPath, ["--disable-warning=ExperimentalWarning", "scripts/build.ts"], {}, project);
  const published = await readFile(`dist/petstore-client-${VERSION}.tgz`);
  await writeFile(join(releases, "petstore-client-0.1.0.tgz"), "earlier");
  await mkdir(join(project, "dist"));
  await writeFile(join(project, "dist/earlier.js"), "old");
  // Without it, the bundler warns.
  await copyFile("tsconfig.json", join(project, "tsconfig.json"));
  // Compressed by something else.
  const same = gzipSync(gunzipSync(published), { level: 1 });
  await writeFile(join(releases, `petstore-client-${VERSION}.tgz`), same);
  expect(await buildThere()).toEqual({ exitCode: 0, stdout: "", stderr: "" });
  expect(existsSync(join(project, "dist/earlier.js"))).toBe(false);
  const built = (name: string) => readFile(join(project, `dist/petstore-client${name}.tgz`));
  expect(`${await built("-0.1.0")}`).toBe("earlier");
  expect([await built(`-${VERSION}`), await built("")]).toEqual([same, same]);

  await writeFile(join(project, "client/LICENSE"), "another");
  expect(await buildThere()).toMatchObject({
    exitCode: 1,
    stderr: expect.stringContaining("was published with other files: give client/package.json a new version"),
  });
});

describe("the pages", () => {
  it.each(["/", "/usage"])("%s loads nothing from other origins, and cannot be framed", async (path) => {
    const response = await fetch(origin + path);
    const policy = response.headers.get("Content-Security-Policy")?.split("; ").sort();
    expect(policy).toEqual([
      ...["base-uri 'none'", "connect-src 'self'", "default-src 'none'", "form-action 'none'"],
      ...["frame-ancestors 'none'", "img-src 'self' data:", "script-src 'self'", "style-src 'self'"],
    ]);
    expect(Object.fromEntries(response.headers)).toMatchObject({
      "x-content-type-options": "nosniff",
      "x-frame-options": "DENY",
      "referrer-policy": "no-referrer",
      "cross-origin-opener-policy": "same-origin",
      "cross-origin-resource-policy": "same-origin",
      "permissions-policy": expect.stringContaining("geolocation=()"),
      "strict-transport-security": "max-age=31536000",
    });
  });

  it.each(["/", "/usage"])("%s links the texts for programs", async (path) => {
    const page = await (await fetch(origin + path)).text();
    const [, nav = ""] = page.match(/<nav aria-label="Pages">(.*?)<\/nav>/s) ?? [];
    for (const file of ["openapi.json", "guide.md", "llms.txt"])
      expect(nav).toContain(`<a href="/${file}">${file}</a>`);
    // Only the reference has the guide.
    expect(page.includes('<link rel="alternate" href="/guide.md" type="text/markdown">')).toBe(path === "/");
  });
});

describe.skipIf(CHROMIUM === undefined)("the usage page", () => {
  async function enter(page: Page, secret: string): Promise<void> {
    await keyField(page).fill(secret);
    await page.getByRole("button", { name: "Show" }).click();
  }

  const meters = (page: Page) => page.getByRole("meter");

  it('keeps the key in its tab only, until "Forget key"', async () => {
    const page = await open("/usage");
    await enter(page, `  ${key}\t`);
    await meters(page).first().waitFor();
    await page.reload();
    await meters(page).first().waitFor();
    expect(page.url()).toBe(`${origin}/usage`);
    expect(await page.evaluate("localStorage.length + document.cookie.length")).toBe(0);
    const security = "getComputedStyle(document.querySelector('#key')).webkitTextSecurity";
    expect(await page.evaluate(security)).toBe("disc");
    const other = await page.context().newPage();
    await other.goto(`${origin}/usage`);
    expect(await keyField(other).inputValue()).toBe("");
    // A page behind it would draw one frame a second.
    await other.close();

    // Another page of the tab has stored another key, and the user goes back.
    const { key: free } = await petstore.newKey("free");
    await page.evaluate(`
      sessionStorage.setItem("petstore-api-key", "${free}");
      dispatchEvent(new PageTransitionEvent("pageshow", { persisted: true }))`);
    await page.getByText("This key is on the Free plan.").waitFor();
    expect(await keyField(page).inputValue()).toBe(free);

    for (const [secret, problem] of [
      ["", "Enter an API key."],
      ["pet_short", MALFORMED_KEY],
    ] as const) {
      await enter(page, secret);
      await page.getByText(problem).waitFor();
      expect(await meters(page).count()).toBe(0);
    }
    await page.getByRole("button", { name: "Forget key" }).click();
    expect(await page.getByRole("alert").count()).toBe(0);
    expect(await page.evaluate("document.activeElement.id")).toBe("key");
    await page.reload();
    expect(await keyField(page).inputValue()).toBe("");
  });

  describe("while something fails", () => {
    let page: Page;
    let calls: () => Promise<number>;

    beforeAll(async () => {
      page = await open("/usage", async (each) => {
        // The page's clock stands still until a test advances it.
        const time = Date.now();
        await each.clock.install({ time });
        // Much later, because the clock runs until then.
        await each.clock.pauseAt(time + 3_600_000);
        calls = await callCounter(each);
      });
    });

    beforeEach(async () => {
      await enter(page, key);
      await meters(page).first().waitFor();
    });

    afterEach(() => page.unrouteAll());

    // Also responses of something in front of the service.
    const outage = { json: { message: "the counters are away" }, headers: { [HEADER.retryAfter]: "30" } };
    const unexpected = "Unexpected response with status 200. The page shows";
    it.each([
      ["a 401", { status: 401, json: { message: "not you" } }, "Not you.", 0, 60],
      ["a page instead of JSON", { body: "<!doctype html>" }, unexpected, 2, 5],
      ["unexpected JSON", { json: {} }, unexpected, 2, 5],
      ["an outage", { status: 503, ...outage }, "The counters are away. The page shows the last", 2, 30],
      ["a lost network connection", undefined, `${UNREACHABLE} The page shows the last`, 2, 5],
    ])("reports %s, and updates again later", async (_, response, problem, figures, seconds) => {
      await page.route("**/v1/usage", (route) => (response ? route.fulfill(response) : route.abort()));
      await page.clock.runFor(2_000);
      await page.getByRole("alert").getByText(problem).waitFor();
      expect(await meters(page).count()).toBe(figures);
      await page.unrouteAll();
      const before = await calls();
      await page.clock.runFor(seconds * 1000 - 1_000);
      expect(await calls()).toBe(before);
      await page.clock.runFor(1_000);
      await page.getByRole("alert").waitFor({ state: "hidden" });
      await meters(page).first().waitFor();
    });

    it("limits the time of a request, and keeps the last figures", async () => {
      await page.evaluate(`
        const { timeout } = AbortSignal;
        AbortSignal.timeout = () => {
          AbortSignal.timeout = timeout;
          return AbortSignal.abort();
        }`);
      await page.clock.runFor(2_000);
      await page.getByText("The page shows the last known data.").waitFor();
      expect(await meters(page).count()).toBe(2);
    });

    it("polls only while it is visible", async () => {
      const show = (state: string) =>
        page.evaluate(`
          Object.defineProperty(document, "visibilityState", { value: "${state}", configurable: true });
          document.dispatchEvent(new Event("visibilitychange"))`);
      const before = await calls();
      await show("hidden");
      await page.clock.runFor(60_000);
      expect(await calls()).toBe(before);
      const nextRequest = page.waitForRequest("**/v1/usage");
      await show("visible");
      await nextRequest;
      expect(await calls()).toBe(before + 1);
    });

    it("ignores a late response for an earlier key", async () => {
      const { key: free } = await petstore.newKey("free");
      const isOfFree = (request: { headers(): Record<string, string> }) =>
        request.headers().authorization?.endsWith(free) === true;
      const answer = await holdBack(page, "**/v1/usage", isOfFree);
      await enter(page, free);
      await enter(page, key);
      await page.getByText("This key is on the Business plan.").waitFor();
      const late = page.waitForResponse((response) => isOfFree(response.request()));
      answer();
      await (await late).finished();
      expect(await page.locator("#state").textContent()).toBe("This key is on the Business plan.");
    });
  });

  it("draws gauges, days and a ban with the clock of the service, fits into narrow windows, and is accessible", async () => {
    const usage = {
      ...EXAMPLE_USAGE,
      windows: forEachWindow((name) => ({
        ...EXAMPLE_USAGE.windows[name],
        limit: MAX_LIMIT,
        used: 123_456_789,
      })),
      // The widest figures of a plan.
      days: EXAMPLE_USAGE.days.map((day, index) => {
        const refused = {
          refusedBy: refusedBy({ minute: 98_765, day: 123_456 }),
          busiest: { minute: 40_000 },
        };
        return index === 28 ? { ...day, admitted: 100_000, ...refused } : day;
      }),
      bannedUntil: EXAMPLE_MS / 1000 + 600,
    };
    const page = await open("/usage", async (each) => {
      // The clock of the machine is an hour slow.
      await each.clock.install({ time: EXAMPLE_MS - 3_600_000 });
      await answerUsage(each, usage);
    });
    await enter(page, key);
    await meters(page).first().waitFor();

    // biome-ignore lint/performance/useDomNodeTextContent: the lines are those of the layout.
    const lines = async () => (await page.locator("#minute").innerText()).split(/\n+/);
    const gauge = page.locator("#minute");
    const meter = page.getByRole("meter", { name: "Today (UTC)" });
    const colourOf = (selector: string) =>
      page.evaluate(`getComputedStyle(document.querySelector("${selector}")).color`);
    const ban = "nothing admitted until 12:44:20 UTC";
    expect(await page.locator("#state.banned").textContent()).toContain("banned until 12:44:20 UTC");
    expect(await lines()).toEqual(["This minute", "123,456,789 of 1,000,000,000", ban, "resets in 40 s"]);
    expect(await meter.getAttribute("aria-valuetext")).toBe(`123,456,789 of 1,000,000,000 used, ${ban}`);
    expect(await colourOf("#minute .left")).not.toBe(await colourOf("body"));
    await page.getByText("Show as a table").click();
    await expectUsable(page);

    // A later route comes first: no poll reaches the service meanwhile.
    await answerUsage(
      page,
      { ...EXAMPLE_USAGE, days: usage.days, bannedUntil: usage.bannedUntil },
      EXAMPLE_MS + 600_000,
    );
    await page.clock.runFor(2_000);
    await page.locator("#state:not(.banned)").waitFor();
    expect(await page.locator("#state").textContent()).toBe("This key is on the Free plan.");
    expect((await lines()).slice(0, 3)).toEqual(["This minute", "1 of 60", "59 left"]);
    expect(await meter.getAttribute("aria-valuetext")).toBe("1 of 1,000 used, 999 left");
    expect(await meter.getAttribute("aria-valuemax")).toBe("1000");
    expect(await gauge.getAttribute("style")).toMatch(/^--share: 1\.6\d*%;$/);
    expect(await colourOf("#minute .left")).toBe(await colourOf("body"));
    expect(await page.locator("#chart g:has(title)").count()).toBe(30);
    const rows = await page.locator("#days tbody tr").allInnerTexts();
    expect(rows.slice(0, 2)).toEqual([
      "20 Nov\t1\t0\t0\t1\t",
      "19 Nov\t100,000\t98,765\t123,456\t40,000\tminute, day",
    ]);
    expect(await page.getByRole("heading", { name: "Last 30 days" }).count()).toBe(1);
  });

  const totals = (page: Page) => page.locator("#totals > div").allTextContents();

  it("says which limits a client has used up, and what a larger plan would have changed", async () => {
    const page = await open("/usage");
    const windows = ["minute", "day"] as const;
    for (const [index, name] of windows.entries()) {
      const { key: own } = await petstore.newKey("enterprise", { [name]: 5 });
      await enter(page, own);
      await page.getByText("No limit was used up: a larger plan would have changed nothing.").waitFor();
      // A client that waits: exactly the limit, also if the window ends meanwhile.
      const left = async () =>
        (await petstore.call("/v1/nowhere", own)).headers.get(HEADER.rateLimitRemaining);
      while ((await left()) !== "0");
      // The page would read again in two seconds.
      await enter(page, own);
      await page.getByText("The Free plan is the smallest that would have admitted these requests").waitFor();
      const ofOther = `Limit per ${windows[1 - index]} used up0 days`;
      expect(await totals(page)).toEqual(
        expect.arrayContaining([`Limit per ${name} used up1 day`, ofOther, "Refused requests0"]),
      );
      expect(await page.locator("#chart g > .mark").count()).toBe(1);
      expect(await page.locator("#days tbody").textContent()).toContain(name);
    }
  });
});
