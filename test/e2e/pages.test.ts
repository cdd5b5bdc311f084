// The static assets as served, and both pages in a browser against the service. A page is loaded once for many tests: each test
// begins with an empty key field. Texts and charts alone: test/unit/site.test.ts.

import { existsSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import type { Browser, BrowserContextOptions, Locator, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import buildCommand from "../../scripts/build.ts";
import { newSecret } from "../../src/keys/secret.ts";
import { openApiDocument } from "../../src/openapi/document.ts";
import { fillGuide } from "../../src/openapi/guide.ts";
import { findBrowser, openBrowser } from "../support/e2e/browser.ts";
import { runCommandInProcess } from "../support/e2e/in-process.ts";
import { runProcess } from "../support/e2e/petstore.ts";
import { sharedPetstore } from "../support/e2e/shared-petstore.ts";

const executablePath = findBrowser();
if (executablePath === undefined) {
  process.stderr.write("Chromium not found: skipping browser tests. Set CHROMIUM to its path.\n");
}

const petstore = sharedPetstore();
let origin: string;
let browser: Browser;
let key: string;
let axe: string;

beforeAll(async () => {
  ({ origin } = petstore);
  ({ key } = await petstore.newKey("business"));
  axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
  if (executablePath !== undefined) browser = await openBrowser(executablePath);
});

afterAll(() => browser?.close());

type Opened = Awaited<ReturnType<typeof open>>;

/** Opens a page. `close` fails if there was an error on its console or a request to another origin. */
async function open(
  path: string,
  options: BrowserContextOptions = {},
  prepare: (page: Page) => unknown = () => {},
) {
  const context = await browser.newContext({ timezoneId: "UTC", ...options });
  const page = await context.newPage();
  await prepare(page);
  const problems: string[] = [];
  page.on("pageerror", ({ message }) => void problems.push(message));
  page.on("console", (message) => {
    // The browser also reports responses with an error status.
    const isStatus = message.text().startsWith("Failed to load resource");
    if (message.type() === "error" && !isStatus) problems.push(message.text());
  });
  page.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(`${origin}/`) && !url.startsWith("data:")) problems.push(`request to ${url}`);
  });
  await page.goto(origin + path);
  const close = async () => {
    await context.close();
    expect(problems).toEqual([]);
  };
  return { page, close };
}

/** Opens a page for one test. */
async function openOnce(...args: Parameters<typeof open>): Promise<Page> {
  const { page, close } = await open(...args);
  onTestFinished(close);
  return page;
}

/** Opens a page for all tests of a `describe`. */
function sharedPage(...args: Parameters<typeof open>): Opened {
  const opened = {} as Opened;
  beforeAll(async () => Object.assign(opened, await open(...args)));
  afterEach(() => opened.page.unrouteAll());
  afterAll(() => opened.close());
  return opened;
}

const keyField = (page: Page): Locator => page.getByLabel("Your API key");

/** The page fits into narrow windows, and axe-core finds nothing, in both colour schemes. */
async function expectUsable(page: Page, overflows = "false"): Promise<void> {
  for (const width of [320, 600, 1280]) {
    await page.setViewportSize({ width, height: 800 });
    expect(await page.evaluate(`document.documentElement.scrollWidth !== ${width} || ${overflows}`)).toBe(
      false,
    );
  }
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme });
    const problems = "violations.map(({ id, nodes }) => id + ': ' + nodes.map(({ target }) => target))";
    expect(await page.evaluate(`${axe}; axe.run().then(({ violations }) => ${problems})`)).toEqual([]);
  }
}

it("/openapi.json is the generated document with the guide, readable by other origins", async () => {
  const response = await fetch(`${origin}/openapi.json`);
  expect(response.headers.get("Content-Type")).toBe("application/json");
  expect(response.headers.get("Access-Control-Allow-Origin")).toBe("*");
  expect(response.headers.get("Cross-Origin-Resource-Policy")).toBe("cross-origin");
  const guide = fillGuide(await readFile("src/openapi/guide.md", "utf8"));
  expect(await response.json()).toEqual(JSON.parse(JSON.stringify(openApiDocument(guide))));
});

it("npm run build removes the files of earlier builds", async () => {
  await writeFile("dist/viewer-0.0.0.js", "old");
  expect(await runCommandInProcess(buildCommand, [])).toEqual({ exitCode: 0, stdout: "", stderr: "" });
  expect(existsSync("dist/viewer-0.0.0.js")).toBe(false);
  expect(existsSync("dist/openapi.json")).toBe(true);
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
    const text = await response.text();
    expect(text).toContain("<!doctype html>");
    // A placeholder that the build has not filled.
    expect(text).not.toMatch(/\{\{|undefined/);
  });

  it("load the viewer from a versioned path that browsers may cache forever", async () => {
    const [, script = ""] = (await (await fetch(origin)).text()).match(/src="(\/viewer-[^"]*)"/) ?? [];
    expect(script).toMatch(/^\/viewer-\d+\.\d+\.\d+\//);
    const { headers } = await fetch(origin + script);
    expect(headers.get("Cache-Control")).toBe("public, max-age=31536000, immutable");
  });

  it("are readable without JavaScript", async () => {
    const page = await (await fetch(origin)).text();
    const all = (pattern: RegExp) => [...page.matchAll(pattern)].map(([, found]) => found);
    expect(all(/<li><code>(.*<\/code>.*)<\/li>/g)).toHaveLength(4);
    expect(page).toContain("<li><code>GET /v1/pets/{petId}</code> Get a pet</li>");
    expect(page).toMatch(/<noscript>.*needs JavaScript.*<\/noscript>/);
    expect(page).toContain("Link: &lt;https://petstore.example/v1/pets");
    const ids = all(/<h[2-6] id="(.*?)"/g);
    expect(all(/<li><a href="#(.*?)"/g)).toEqual(ids);
    // The target of the deprecation link of getPet.
    expect(ids).toContain("deprecation");
  });
});

// In a browser, and on the machine's Node, which may be too old for source text access in JSON.parse.
it("the guide's code for 64-bit integers is exact", async () => {
  const { info } = openApiDocument(fillGuide(await readFile("src/openapi/guide.md", "utf8")));
  const [, code = ""] = info.description.match(/## Exact 64-bit integers\n.*?```js\n(.*?)```/s) ?? [];
  const program = `
    const baseUrl = "${origin}/v1";
    const key = "${key}";
    ${code}
    const odd = { name: 'é "id":12345678901234567890,\\\\', categoryId: -9007199254740993n, status: "sold" };
    const options = { method: "POST", headers, body: stringify(odd) };
    const oddAdded = parse(await (await fetch(baseUrl + "/pets", options)).text());
    const [listed] = parse('[{"id":-9223372036854775808,"categoryId":5}]');
    let refused;
    try { stringify({ name: "Rex", categoryId: 5 }) } catch (error) { refused = error.message }
    const outcome = [
      response.status, pet.name, pet.categoryId, typeof pet.id,
      oddAdded.name === odd.name, oddAdded.categoryId, oddAdded.status,
      listed.id, typeof listed.categoryId, refused, stringify({ categoryId: 5n }),
    ].join("|");`;
  const outcome =
    '201|Zoë|9223372036854775807|bigint|true|-9007199254740993|sold|-9223372036854775808|bigint|categoryId: not a bigint|{"categoryId":5}';
  const script = `${program} console.log(outcome)`;
  const { stdout, stderr } = await runProcess("node", ["--input-type=module", "--eval", script]);
  expect([stdout, stderr]).toEqual([`${outcome}\n`, ""]);
  if (executablePath === undefined) return;
  const page = await openOnce("/paw.svg");
  expect(await page.evaluate(`(async () => { ${program} return outcome })()`)).toBe(outcome);
});

/** Expands an operation of the reference page, and closes all others. */
async function operation(page: Page, name: string): Promise<{ part: Locator; execute: Locator }> {
  const part = page.locator(`#operations-Pets-${name}`);
  await page.locator(".opblock").first().waitFor();
  for (const open of await page.locator(`.opblock.is-open:not(#operations-Pets-${name})`).all())
    await open.locator(".opblock-summary-control").click();
  const execute = part.getByRole("button", { name: "Execute" });
  if (!(await execute.isVisible())) await part.locator(".opblock-summary-control").click();
  await execute.waitFor();
  return { part, execute };
}

/** Lists pets from the reference page with a key, and returns the summary of the response. */
async function listPets(page: Page, secret: string): Promise<string> {
  await keyField(page).fill(secret);
  const { part, execute } = await operation(page, "listPets");
  await execute.click();
  return (await part.locator(".explanation").textContent()) ?? "";
}

describe.skipIf(executablePath === undefined)("the reference page", () => {
  const opened = sharedPage("/");
  let page: Page;

  beforeEach(async () => {
    ({ page } = opened);
    // This hides all responses.
    await keyField(page).fill("");
  });

  it("lists the operations, with requests to the service only", async () => {
    await page.locator(".opblock").first().waitFor();
    expect(await page.locator(".opblock").count()).toBe(4);
    const [first] = await page.locator(".guide pre").allTextContents();
    expect(first).toContain(`curl -i ${origin}/v1/pets`);
    expect(await page.locator(".guide code").getByText("petstore.example").count()).toBe(0);
  });

  it("shows stored pets as text, also HTML, with exact integers", async () => {
    const name = `<script>document.title = 'mine'</script><img src='x' onerror='document.title = "mine"'>`;
    await keyField(page).fill(key);
    const { part, execute } = await operation(page, "createPet");
    const categoryId = "-9223372036854775807";
    await part.getByLabel("Request body").fill(`{"name":${JSON.stringify(name)},"categoryId":${categoryId}}`);
    await execute.click();
    const shown = part.locator("pre.body");
    const text = (await shown.textContent()) ?? "";
    expect(text).toContain(`"categoryId": ${categoryId}`);
    expect(JSON.parse(text)).toMatchObject({ name });
    expect(await shown.locator("*").count()).toBe(0);
    expect(await page.title()).not.toBe("mine");
  });

  it("shows what is left, and the headers, of a response", async () => {
    expect(await listPets(page, key)).toMatch(
      /^Done\. \d+ of 1000 requests left until \d\d:\d\d:\d\d UTC\.$/,
    );
    const lines = await page.locator(".live-responses-table .headerline").allTextContents();
    expect(lines.map((line) => line.trim())).toContain(
      'ratelimit-policy: "minute";q=1000;w=60, "day";q=100000;w=86400',
    );
  });

  it.each([
    ["no key", "", "Enter an API key above."],
    ["a wrong key", newSecret(), "Invalid API key."],
    ["a malformed key", "pet_„quoted“", "This is not an API key"],
  ])("with %s, shows the problem, highlighted", async (_, secret, sentence) => {
    const failures = page.locator(".explanation.failed");
    expect(await listPets(page, secret)).toContain(sentence);
    expect(await failures.count()).toBe(1);
    expect(await listPets(page, key)).toContain("Done.");
    expect(await failures.count()).toBe(0);
  });

  it("sends invalid parameters, and no examples of parameters", async () => {
    const { part } = await operation(page, "createPet");
    expect(await part.getByRole("textbox", { name: "Idempotency-Key" }).inputValue()).toBe("");
    await operation(page, "listPets");
    const limit = page.getByLabel("limit");
    onTestFinished(() => limit.fill("20"));
    await limit.fill("0");
    const sent = page.waitForRequest("**/v1/pets*");
    expect(await listPets(page, key)).toContain("Limit: must be an integer from 1 to 100.");
    expect(new URL((await sent).url()).search).toBe("?limit=0");
  });

  it("hides a key that was cleared here or forgotten on another page, and its response", async () => {
    const forget = `sessionStorage.clear(); dispatchEvent(new PageTransitionEvent("pageshow", { persisted: true }))`;
    for (const hide of [() => keyField(page).fill(""), () => page.evaluate(forget)]) {
      await listPets(page, key);
      expect(await page.locator(".curl").first().textContent()).toContain(key);
      await hide();
      await page.locator(".explanation").waitFor({ state: "detached" });
      expect(await page.content()).not.toContain(key);
    }
  });

  it("hides the previous response while a request is pending, and its own if the key is cleared meanwhile", async () => {
    await listPets(page, key);
    const { part, execute } = await operation(page, "listPets");
    const answer = Promise.withResolvers<void>();
    await page.route("**/v1/pets?*", async (route) => {
      await answer.promise;
      await route.continue();
    });
    await execute.click();
    await part.locator(".explanation").waitFor({ state: "detached" });
    await keyField(page).fill("");
    answer.resolve();
    // Swagger UI has got the response.
    await part.locator(".responses-inner h4").first().waitFor();
    expect(await page.content()).not.toContain(key);
  });

  it("reports a lost network connection", async () => {
    await page.route("**/v1/pets?*", (route) => route.abort());
    expect(await listPets(page, key)).toBe(
      "The service can't be reached. Check your connection and try again.",
    );
  });

  it("fits into narrow windows with a long name, follows the system's colour scheme, and is accessible", async () => {
    const body = `{"name":"${"n".repeat(255)}","categoryId":1}`;
    const headers = { "Content-Type": "application/json" };
    await petstore.call("/v1/pets", key, { method: "POST", headers, body });
    await listPets(page, key);
    await expectUsable(page);
    await page.locator("html.dark-mode").waitFor();
    await page.emulateMedia({ colorScheme: "light" });
    await page.locator("html:not(.dark-mode)").waitFor();
  });
});

describe.skipIf(executablePath === undefined)("the reference page with another URL or script", () => {
  it("ignores configuration in its URL, and opens the operation that the fragment names", async () => {
    const elsewhere = encodeURIComponent("https://petstore.example/other.json");
    const markup = encodeURIComponent("<img src=x onerror=alert(1)>");
    const query = `url=${elsewhere}&configUrl=${elsewhere}&persistAuthorization=true&name=${markup}`;
    const viewport = { width: 800, height: 300 };
    const page = await openOnce(`/?${query}#/Usage/getUsage`, { viewport, colorScheme: "dark" });
    const isOnTop = (part: string) =>
      page.locator(part).evaluate(`(part) => new Promise((resolve) => {
        const begin = ([{ isIntersecting }]) => isIntersecting && resolve();
        new IntersectionObserver(begin, { rootMargin: "0px 0px -200px 0px" }).observe(part);
      })`);
    await isOnTop("#operations-Usage-getUsage .opblock-summary");
    await page.locator("#operations-Usage-getUsage .execute").waitFor();
    expect(await page.locator(".opblock").count()).toBe(4);
    expect(await page.locator("html.dark-mode").count()).toBe(1);

    await page.evaluate("location.hash = '#/Pets/createPet'");
    await isOnTop("#operations-Pets-createPet .opblock-summary");
    await page.locator("#operations-Pets-createPet .execute").waitFor();
    await page.evaluate(`location.hash = "#/${markup}/${markup}"`);
    expect(await page.locator(".opblock.is-open").count()).toBe(2);
    expect(await page.content()).not.toContain("onerror");
    // Other fragments keep their meaning.
    await page.evaluate("location.hash = '#rate-limits'");
    await isOnTop("#rate-limits");
  });

  it("reports a console that can't be loaded, and shows everything else", async () => {
    const page = await openOnce("/", {}, (each) =>
      each.route("**/swagger-ui-bundle.js", (route) => route.abort()),
    );
    expect(await page.getByRole("alert").textContent()).toContain("The console can't be loaded.");
    expect(await page.locator(".operations li").count()).toBe(4);
  });
});

describe.skipIf(executablePath === undefined)("the usage page", () => {
  /** Enters a key. */
  async function enter(page: Page, secret: string): Promise<void> {
    await keyField(page).fill(secret);
    await page.getByRole("button", { name: "Show" }).click();
  }

  const meters = (page: Page) => page.getByRole("meter");

  it("shows the usage, and updates by itself, with requests to the service only", async () => {
    const { key: secret } = await petstore.newKey("free");
    const page = await openOnce("/usage", {}, (each) => each.clock.install());
    await enter(page, secret);
    await page.getByText("This key is on the Free plan.").waitFor();
    for (let request = 0; request < 20; request += 1) await petstore.call("/v1/pets", secret);
    await page.clock.runFor(2_000);
    await page.locator("#day .left").getByText("980 left").waitFor();
    expect(await page.locator("#day .used").getAttribute("stroke-dasharray")).toBe("2 100");
    expect(await page.locator("#chart title").last().textContent()).toMatch(/: 20 admitted, 0 refused$/);
  });

  it('keeps the key in its tab only, until "Forget key"', async () => {
    const page = await openOnce("/usage");
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

    // Another page of the tab has stored another key, and the user goes back.
    const { key: free } = await petstore.newKey("free");
    await page.evaluate(`
      sessionStorage.setItem("petstore-api-key", "${free}");
      dispatchEvent(new PageTransitionEvent("pageshow", { persisted: true }))`);
    await page.getByText("This key is on the Free plan.").waitFor();
    expect(await keyField(page).inputValue()).toBe(free);

    await page.getByRole("button", { name: "Forget key" }).click();
    expect(await meters(page).count()).toBe(0);
    expect(await page.getByRole("alert").count()).toBe(0);
    expect(await page.evaluate("document.activeElement.id")).toBe("key");
    await page.reload();
    expect(await keyField(page).inputValue()).toBe("");
  });

  it("works without browser storage", async () => {
    // As a user can configure it.
    const page = await openOnce("/usage", {}, (each) =>
      each.addInitScript(`
        Object.defineProperty(window, "sessionStorage", { get() { throw new DOMException("denied", "SecurityError"); } })`),
    );
    await enter(page, key);
    await meters(page).first().waitFor();
  });

  describe("while something fails", () => {
    // The page's clock stands still until a test advances it.
    const opened = sharedPage("/usage", {}, async (each) => {
      const time = Date.now();
      await each.clock.install({ time });
      await each.clock.pauseAt(time + 1_000);
      each.on("request", () => (requests += 1));
    });
    let page: Page;
    let requests = 0;

    beforeEach(async () => {
      ({ page } = opened);
      await enter(page, key);
      await meters(page).first().waitFor();
    });

    it("shows the problem of a key that is missing or malformed", async () => {
      for (const [secret, sentence] of [
        ["", "Enter an API key."],
        ["pet_short", "This is not an API key: keys are pet_ followed by 38 letters and digits."],
      ] as const) {
        await enter(page, secret);
        await page.getByText(sentence).waitFor();
        expect(await meters(page).count()).toBe(0);
      }
    });

    // Also responses of something in front of the service.
    const outage = { json: { message: "the counters are away" }, headers: { "Retry-After": "30" } };
    const unexpected = "Unexpected response with status 200. The page shows";
    it.each([
      ["a 401", { status: 401, json: { message: "not you" } }, "Not you.", 0, 60],
      ["a page instead of JSON", { body: "<!doctype html>" }, unexpected, 2, 5],
      ["unexpected JSON", { json: {} }, unexpected, 2, 5],
      ["an outage", { status: 503, ...outage }, "The counters are away. The page shows the last", 2, 30],
      ["a lost network connection", undefined, "The service can't be reached.", 2, 5],
    ])("reports %s, and updates again later", async (_, response, sentence, figures, seconds) => {
      await page.route("**/v1/usage", (route) => (response ? route.fulfill(response) : route.abort()));
      await page.clock.runFor(2_000);
      await page.getByRole("alert").getByText(sentence).waitFor();
      expect(await meters(page).count()).toBe(figures);
      await page.unrouteAll();
      const before = requests;
      await page.clock.runFor(seconds * 1000 - 1_000);
      expect(requests).toBe(before);
      await page.clock.runFor(1_000);
      await page.getByRole("alert").waitFor({ state: "hidden" });
      await meters(page).first().waitFor();
    });

    it("reports a timeout, and keeps the last figures", async () => {
      await page.evaluate(`AbortSignal.timeout = () => (window.timeout = new AbortController()).signal`);
      await page.route("**/v1/usage", () => {});
      const sent = page.waitForRequest("**/v1/usage");
      await page.clock.runFor(2_000);
      await sent;
      await page.evaluate("timeout.abort()");
      await page.getByText("The page shows the last known data.").waitFor();
      expect(await meters(page).count()).toBe(2);
    });

    it("polls only while it is visible", async () => {
      const show = (state: string) =>
        page.evaluate(`
          Object.defineProperty(document, "visibilityState", { value: "${state}", configurable: true });
          document.dispatchEvent(new Event("visibilitychange"))`);
      const before = requests;
      await show("hidden");
      await page.clock.runFor(60_000);
      expect(requests).toBe(before);
      const nextRequest = page.waitForRequest("**/v1/usage");
      await show("visible");
      await nextRequest;
      expect(requests).toBe(before + 1);
    });

    it("ignores a late response for an earlier key", async () => {
      const { key: free } = await petstore.newKey("free");
      const isOfFree = (request: { headers(): Record<string, string> }) =>
        request.headers().authorization?.endsWith(free) === true;
      const answer = Promise.withResolvers<void>();
      await page.route("**/v1/usage", async (route) => {
        if (isOfFree(route.request())) await answer.promise;
        await route.continue();
      });
      await enter(page, free);
      await enter(page, key);
      await page.getByText("This key is on the Business plan.").waitFor();
      const late = page.waitForResponse((response) => isOfFree(response.request()));
      answer.resolve();
      await (await late).finished();
      expect(await page.locator("#state").textContent()).toBe("This key is on the Business plan.");
    });
  });

  it("draws gauges and days with the clock of the service, fits into narrow windows, and is accessible", async () => {
    const nowMs = Date.parse("2026-11-20T12:34:20Z");
    const days = [
      { date: "2026-11-19", admitted: 300, refused: 0 },
      { date: "2026-11-20", admitted: 290, refused: 60 },
    ];
    const minute = { limit: 10, used: 25, remaining: 0, reset: nowMs / 1000 + 40 };
    const day = { limit: 100_000, used: 1, remaining: 99_999, reset: nowMs / 1000 + 86_340 };
    const json = { plan: "free", minute, day, bannedUntil: nowMs / 1000 + 600, days };
    const headers = { Date: new Date(nowMs).toUTCString() };
    const page = await openOnce("/usage", {}, async (each) => {
      // The clock of the machine is an hour slow.
      await each.clock.install({ time: nowMs - 3_600_000 });
      await each.route("**/v1/usage", (route) => route.fulfill({ json, headers }));
    });
    await enter(page, key);
    await meters(page).first().waitFor();

    expect(await page.locator("#state.banned").textContent()).toContain("banned until 12:44:20 UTC");
    const gauge = page.locator("#minute");
    const texts = ["This minute", "25", "of 10", "0 left", "resets in 40 s"];
    expect((await gauge.innerText()).split(/\n+/)).toEqual(texts);
    expect(await gauge.locator(".used").getAttribute("stroke-dasharray")).toBe("100 100");
    expect(await gauge.getAttribute("data-level")).toBe("empty");
    const meter = page.getByRole("meter", { name: "Today (UTC)" });
    expect(await meter.getAttribute("aria-valuetext")).toBe("1 of 100,000 used");
    expect(await meter.getAttribute("aria-valuemax")).toBe("100000");
    expect(await page.locator("#chart g:has(title)").count()).toBe(2);
    await page.getByText("Show as a table").click();
    expect(await page.locator("#days tr").first().innerText()).toBe("20 Nov\t290\t60");
    expect(await page.getByRole("heading", { name: "Last 30 days" }).count()).toBe(1);
    await expectUsable(
      page,
      "[...document.querySelectorAll('.gauge')].some((each) => each.scrollWidth > each.clientWidth)",
    );
  });
});
