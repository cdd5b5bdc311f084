// The static assets as served, and both pages in a browser against the service. Tests of the reference page share one page, and each
// begins with an empty key field. Texts and charts alone: test/unit/site.test.ts.

import { existsSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import type { Browser, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { HEADER } from "../../src/http/header-names.ts";
import { OPERATION_IDS } from "../../src/http/operations.ts";
import { newKeyId, newSecret } from "../../src/keys/secret.ts";
import { openApiDocument } from "../../src/openapi/document.ts";
import { REMEDIES } from "../../src/openapi/errors.ts";
import { EXAMPLE_USAGE } from "../../src/openapi/examples.ts";
import { fillGuide } from "../../src/openapi/guide.ts";
import { guideAsHtml } from "../../src/openapi/html.ts";
import { MALFORMED_KEY } from "../../src/site/key.ts";
import { UNREACHABLE } from "../../src/site/text.ts";
import {
  answerUsage,
  CHROMIUM,
  EXAMPLE_MS,
  keyField,
  newPage,
  openBrowser,
  openOperation,
} from "../support/e2e/browser.ts";
import { runScript } from "../support/e2e/petstore.ts";
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

/** Errors on the console of a page, and requests to other origins. */
const problems: string[] = [];

afterEach(() => expect(problems.splice(0)).toEqual([]));

/** Opens a page with a clock of its own. `prepare` runs before the page is loaded. */
async function open(path: string, prepare: (page: Page) => unknown = () => {}): Promise<Page> {
  const permissions = ["clipboard-read", "clipboard-write"];
  const page = await newPage(browser, { timezoneId: "UTC", permissions });
  await prepare(page);
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
  return page;
}

/** The page fits into narrow windows, and axe-core finds nothing, in both colour schemes. */
async function expectUsable(page: Page): Promise<void> {
  for (const width of [320, 600, 1280]) {
    await page.setViewportSize({ width, height: 800 });
    const gauges = "[...document.querySelectorAll('.gauge')]";
    const isWide = `${gauges}.some((each) => each.scrollWidth > each.clientWidth)`;
    expect(await page.evaluate(`document.documentElement.scrollWidth > ${width} || ${isWide}`)).toBe(false);
  }
  await page.evaluate(await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8"));
  for (const [colorScheme, options] of [
    ["light", "{}"],
    ["dark", "{ runOnly: 'color-contrast' }"],
  ] as const) {
    await page.emulateMedia({ colorScheme });
    // The page follows before the next frame; then colours change in transitions.
    const transitions = "Promise.allSettled(document.getAnimations().map(({ finished }) => finished))";
    await page.evaluate(`new Promise(requestAnimationFrame).then(() => ${transitions}).then(() => {})`);
    const found = "violations.map(({ id, nodes }) => id + ': ' + nodes.map(({ target }) => target))";
    expect(await page.evaluate(`axe.run(${options}).then(({ violations }) => ${found})`)).toEqual([]);
  }
}

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

it("npm run build removes the files of earlier builds", async () => {
  await writeFile("dist/viewer-0.0.0.js", "old");
  expect(await runScript("scripts/build.ts", [])).toEqual({ exitCode: 0, stdout: "", stderr: "" });
  expect([existsSync("dist/viewer-0.0.0.js"), existsSync("dist/openapi.json")]).toEqual([false, true]);
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

  it("load the viewer from a versioned path that browsers may cache forever", async () => {
    const [, script = ""] = (await (await fetch(origin)).text()).match(/src="(\/viewer-[^"]*)"/) ?? [];
    expect(script).toMatch(/^\/viewer-\d+\.\d+\.\d+\//);
    const { headers } = await fetch(origin + script);
    expect(headers.get("Cache-Control")).toBe("public, max-age=31536000, immutable");
  });

  it("are readable without JavaScript", async () => {
    const page = await (await fetch(origin)).text();
    const all = (pattern: RegExp) => [...page.matchAll(pattern)].map(([, found]) => found);
    expect(page).toContain('<li id="/Pets/getPet"><code>GET /v1/pets/{petId}</code> Get a pet</li>');
    expect(page).toMatch(/<noscript>.*needs JavaScript.*<\/noscript>/);
    const ids = all(/<(?:h[2-6]|li) id="(.*?)"/g);
    expect(all(/<li>\s*<a href="#(.*?)"/g)).toEqual(ids);
    expect(ids).toEqual(expect.arrayContaining(["/Usage/getUsage", "rate-limits", "changes"]));
    expect(page).toMatch(/<details>\n<summary>1\.0\.0 .*<\/summary>\s*<ul>\s*<li>List pets in pages/);
  });
});

/** Lists pets from the reference page with a key, and returns the summary of the response. */
async function listPets(page: Page, secret: string): Promise<string | null> {
  await keyField(page).fill(secret);
  const { operation, execute } = await openOperation(page, "listPets");
  await execute.click();
  return operation.locator(".explanation").textContent();
}

describe.skipIf(CHROMIUM === undefined)("the reference page", () => {
  let page: Page;

  beforeAll(async () => {
    page = await open("/");
  });

  // This hides all responses.
  beforeEach(() => keyField(page).fill(""));

  afterEach(() => page.unrouteAll());

  it("shows stored pets as text, also HTML, with exact integers", async () => {
    const name = `<script>document.title = 'mine'</script><img src='x' onerror='document.title = "mine"'>`;
    await keyField(page).fill(key);
    const { operation, execute } = await openOperation(page, "createPet");
    const categoryId = "-9223372036854775807";
    const body = `{"name":${JSON.stringify(name)},"categoryId":${categoryId}}`;
    await operation.getByLabel("Request body").fill(body);
    const shown = operation.locator("pre.body");
    const send = async () => {
      await execute.click();
      return (await shown.textContent()) ?? "";
    };
    let text = await send();
    // On a machine that stalls, wrangler's proxy loses the connection of a POST, which it does not repeat by itself.
    while (text.includes("Network connection lost")) text = await send();
    expect(text).toContain(`"categoryId": ${categoryId}`);
    expect(JSON.parse(text)).toMatchObject({ name });
    expect(await shown.locator("*").count()).toBe(0);
    expect(await page.title()).not.toBe("mine");

    const get = await openOperation(page, "getPet");
    await get.operation.getByRole("textbox", { name: "petId" }).fill("9223372036854775807");
    const sent = page.waitForRequest("**/v1/pets/9223372036854775807");
    await get.execute.click();
    await sent;
    await get.operation.locator(".explanation").waitFor();
    await get.operation.getByRole("button", { name: "Clear" }).click();
  });

  it("explains each response, and shows the headers", async () => {
    const failures = page.locator(".explanation.failed");
    for (const [secret, problem, hints] of [
      ["", "Enter an API key above.", []],
      [newSecret(newKeyId()), "Invalid API key.", [REMEDIES.unauthorized]],
      ["pet_„quoted“", MALFORMED_KEY, []],
    ] as const) {
      expect(await listPets(page, secret)).toContain(problem);
      expect(await failures.count()).toBe(1);
      expect(await failures.locator(".hint").allTextContents()).toEqual(hints);
    }
    expect(await listPets(page, key)).toMatch(
      /^Done\. \d+ of 1000 requests left until \d\d:\d\d:\d\d UTC\.$/,
    );
    expect(await failures.count()).toBe(0);
    const headers = await page.locator(".live-responses-table .headerline").allTextContents();
    expect(headers.map((line) => line.trim())).toContain(
      'ratelimit-policy: "minute";q=1000;w=60, "day";q=100000;w=86400',
    );
    await page.route("**/v1/pets?*", (route) => route.abort());
    expect(await listPets(page, key)).toBe(UNREACHABLE);
  });

  it("sends invalid parameters, and no examples of parameters", async () => {
    const { operation } = await openOperation(page, "createPet");
    expect(await operation.getByRole("textbox", { name: HEADER.idempotencyKey }).inputValue()).toBe("");
    await openOperation(page, "listPets");
    const limit = page.getByLabel("limit", { exact: true });
    onTestFinished(() => limit.fill("20"));
    await limit.fill("0");
    const sent = page.waitForRequest("**/v1/pets*");
    expect(await listPets(page, key)).toContain("Limit: must be an integer from 1 to 100.");
    expect(new URL((await sent).url()).search).toBe("?limit=0");
  });

  it("hides a response while the next one is pending, and if the key is forgotten on another page or cleared meanwhile", async () => {
    await listPets(page, key);
    const { operation, execute } = await openOperation(page, "listPets");
    const explanation = operation.locator(".explanation");
    await page.evaluate(
      `sessionStorage.clear(); dispatchEvent(new PageTransitionEvent("pageshow", { persisted: true }))`,
    );
    await explanation.waitFor({ state: "detached" });

    await listPets(page, key);
    const answer = Promise.withResolvers<void>();
    await page.route("**/v1/pets?*", async (route) => {
      await answer.promise;
      await route.continue();
    });
    await execute.click();
    await explanation.waitFor({ state: "detached" });
    await keyField(page).fill("");
    answer.resolve();
    // Swagger UI has got the response.
    await operation.locator(".responses-inner h4").first().waitFor();
    expect(await page.locator(".explanation, pre.body").count()).toBe(0);
  });

  const sampleOf = (operation: string) => page.locator(`#sample-${operation}`);

  it("has samples with the reader's address and key, masked where shown and whole where copied", async () => {
    const { operation, execute } = await openOperation(page, "createPet");
    await operation.getByText("curl", { exact: true }).click();
    const text = async () => (await sampleOf("createPet").textContent()) ?? "";
    const ofPlaceholders = `"${origin}/v1/pets" -H "Authorization: Bearer YOUR_API_KEY"`;
    expect(await text()).toContain(ofPlaceholders);
    await keyField(page).fill(key);
    const address = page.getByLabel("Address in samples");
    await address.fill("https://pets.example:8443/");
    const masked = `"https://pets.example:8443/v1/pets" -H "Authorization: Bearer pet_…${key.slice(-4)}"`;
    expect(await text()).toContain(masked);
    // To this service, which the observer of requests in `open` checks.
    await execute.click();
    await operation.locator("pre.body").waitFor();
    expect(await page.content()).not.toContain(key);

    const copied = () => page.evaluate<string>("navigator.clipboard.readText()");
    const whole = (await text()).replace(/pet_…..../, key);
    const copy = operation.locator(".copy");
    await copy.click();
    await operation.getByRole("status").getByText("Copied").waitFor();
    expect(await copied()).toBe(whole);
    await page.evaluate(`navigator.clipboard.writeText("").then(() => {
      navigator.clipboard.writeText = () => Promise.reject(new Error("denied")) })`);
    await copy.click();
    await operation.getByRole("status").getByText("Selected").waitFor();
    await page.keyboard.press("ControlOrMeta+c");
    expect(await copied()).toBe(whole);

    await address.fill("javascript:alert(1)");
    expect(await address.getAttribute("aria-invalid")).toBe("true");
    await keyField(page).fill("pet_short");
    expect(await text()).toContain(ofPlaceholders);
  });

  it("has samples in the language chosen last, for all operations and after a reload", async () => {
    const { operation } = await openOperation(page, "createPet");
    await openOperation(page, "listPets");
    await operation.getByText("curl", { exact: true }).click();
    const chosen: (string | null)[] = [];
    for (const press of ["ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft"]) {
      await page.keyboard.press(press);
      chosen.push(await page.locator("label:has(:focus:checked)").textContent());
    }
    expect(chosen).toEqual(["TypeScript", "Python", "curl", "Python"]);
    expect(await sampleOf("listPets").textContent()).toContain("import requests");
    await operation.getByText("TypeScript", { exact: true }).click();
    await page.reload();
    await openOperation(page, "listPets");
    const sample = page.getByRole("group", { name: "TypeScript sample" });
    expect(await sample.textContent()).toContain("petstore.pets.list()");
  });

  it("shows the focus of the keyboard on every control of an operation", async () => {
    const { operation } = await openOperation(page, "createPet");
    await operation.locator(".opblock-summary-control").focus();
    const controls: string[] = [];
    for (let each = ""; each !== "outside"; controls.push(each)) {
      await page.keyboard.press("Tab");
      each = await page.evaluate<string>(`(() => {
        const control = document.activeElement;
        if (!control.closest("#operations-Pets-createPet")) return "outside";
        // A radio button is invisible, and its label shows the focus.
        const shown = control.type === "radio" ? control.parentElement : control;
        return getComputedStyle(shown).outlineStyle === "none" ? control.outerHTML : "visible";
      })()`);
    }
    expect([...new Set(controls)]).toEqual(["visible", "outside"]);
  });

  it("fits into narrow windows with a long name, follows the system's colour scheme, and is accessible", async () => {
    const page = await open("/");
    await keyField(page).fill(key);
    const { operation, execute } = await openOperation(page, "createPet");
    // Swagger UI would show more buttons for a changed body.
    await operation.getByLabel("Request body").fill(`{"name":"${"n".repeat(255)}","categoryId":1}`);
    await execute.click();
    await operation.locator("pre.body").waitFor();
    await operation.getByRole("region", { name: "Responses: Add a pet" }).waitFor();
    await expectUsable(page);
    // One operation at a time: Swagger UI gives the parts of all operations the same labels.
    await operation.locator(".opblock-summary-control").click();
    expect(await listPets(page, newSecret(newKeyId()))).toContain("Invalid API key.");
    await page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true");
    // A schema with a name, and one without.
    for (const tab of (await page.getByRole("tab", { name: "Schema" }).all()).slice(0, 2)) await tab.click();
    await expectUsable(page);
    await page.locator("#operations-Pets-listPets .opblock-summary-control").click();
    // Its example scrolls.
    await page.locator("#operations-Usage-getUsage .opblock-summary-control").click();
    await page.locator("#operations-Usage-getUsage pre.example").first().waitFor();
    await expectUsable(page);
    const background = "getComputedStyle(document.querySelector('.opblock')).backgroundColor";
    const ofCard = "getComputedStyle(document.querySelector('#key-form')).backgroundColor";
    expect(await page.evaluate(background)).toBe(await page.evaluate(ofCard));
  });
});

describe.skipIf(CHROMIUM === undefined)("the reference page with another URL or script", () => {
  it("keeps the linked part at the top until the user acts, marks it in the contents, and ignores configuration in its URL", async () => {
    const elsewhere = encodeURIComponent("https://petstore.example/other.json");
    const markup = encodeURIComponent("<img src=x onerror=alert(1)>");
    const query = `url=${elsewhere}&configUrl=${elsewhere}&persistAuthorization=true&name=${markup}`;
    const page = await open(`/?${query}#/Usage/getUsage`);
    // As in browsers without scroll anchoring.
    await page.evaluate("document.documentElement.style.overflowAnchor = 'none'");
    const current = page.locator(".contents [aria-current]");
    const expectAtTop = async (id: string, entry: string) => {
      await page.evaluate(`new Promise((resolve) => {
        const check = () => {
          const { top } = document.getElementById("${id}")?.getBoundingClientRect() ?? {};
          // Where a fragment scrolls to.
          if (Math.round(top) === 16) resolve();
          else requestAnimationFrame(check);
        };
        check();
      })`);
      await current.getByText(entry, { exact: true }).waitFor();
      expect(await current.count()).toBe(1);
    };
    const growAbove = (pixels: number) => `
      document.querySelector(".opblock-tag-section").style.paddingTop = "${pixels}px";
      new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))`;
    await page.locator("#operations-Usage-getUsage .execute").waitFor();
    await expectAtTop("/Usage/getUsage", "Get the usage of the key");
    await page.evaluate(growAbove(270));
    await expectAtTop("/Usage/getUsage", "Get the usage of the key");
    expect(await page.locator(".opblock").count()).toBe(OPERATION_IDS.length);

    const link = page.getByRole("link", { name: "Link to createPet" });
    for (const _ of ["another fragment", "the same fragment"]) {
      await link.click();
      await page.locator("#operations-Pets-createPet .execute").waitFor();
      await expectAtTop("/Pets/createPet", "Add a pet");
      await page.locator("#operations-Pets-createPet .opblock-summary-control").click();
    }
    expect(new URL(page.url()).hash).toBe("#/Pets/createPet");
    await page.evaluate(`location.hash = "#/${markup}/${markup}"`);
    expect(await page.content()).not.toContain("onerror");
    const scrolled = await page.evaluate("scrollBy(0, 50); scrollY");
    await page.evaluate(growAbove(90));
    expect(await page.evaluate("scrollY")).toBe(scrolled);

    // A short section, and the last one.
    for (const entry of ["Deprecation", "Changes"]) {
      await page.getByRole("link", { name: entry, exact: true }).click();
      await expectAtTop(entry.toLowerCase(), entry);
    }
    await page.evaluate("scrollTo(0, 0)");
    await current.getByText("Operations").waitFor();
  });

  it("reports a console that can't be loaded, and shows everything else", async () => {
    const page = await open("/", (each) => each.route("**/swagger-ui-bundle.js", (route) => route.abort()));
    expect(await page.getByRole("alert").textContent()).toContain("The console can't be loaded.");
    expect(await page.locator(".operations li").count()).toBe(OPERATION_IDS.length);
    const [first] = await page.locator(".guide pre").allTextContents();
    expect(first).toContain(`curl -i ${origin}/v1/pets`);
    expect(await page.locator(".guide code").getByText("petstore.example").count()).toBe(0);
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
    let requests = 0;

    beforeAll(async () => {
      page = await open("/usage", async (each) => {
        // The page's clock stands still until a test advances it.
        const time = Date.now();
        await each.clock.install({ time });
        // Much later, because the clock runs until then.
        await each.clock.pauseAt(time + 3_600_000);
        each.on("request", () => (requests += 1));
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
      const before = requests;
      await page.clock.runFor(seconds * 1000 - 1_000);
      expect(requests).toBe(before);
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
    const page = await open("/usage", async (each) => {
      // The clock of the machine is an hour slow.
      await each.clock.install({ time: EXAMPLE_MS - 3_600_000 });
      // The widest figures of a plan.
      const refused = { refusedBy: refusedBy({ minute: 98_765, day: 123_456 }), busiest: { minute: 40_000 } };
      const days = EXAMPLE_USAGE.days.map((day, index) =>
        index === 28 ? { ...day, admitted: 100_000, ...refused } : day,
      );
      await answerUsage(each, { ...EXAMPLE_USAGE, days, bannedUntil: EXAMPLE_MS / 1000 + 600 });
    });
    await enter(page, key);
    await meters(page).first().waitFor();

    expect(await page.locator("#state.banned").textContent()).toContain("banned until 12:44:20 UTC");
    const gauge = page.locator("#minute");
    const texts = ["This minute", "1", "of 60", "59 left", "resets in 40 s"];
    // biome-ignore lint/performance/useDomNodeTextContent: the lines are those of the layout.
    expect((await gauge.innerText()).split(/\n+/)).toEqual(texts);
    expect(await gauge.locator(".used").getAttribute("stroke-dasharray")).toMatch(/^1\.6\d* 100$/);
    const meter = page.getByRole("meter", { name: "Today (UTC)" });
    expect(await meter.getAttribute("aria-valuetext")).toBe("1 of 1,000 used");
    expect(await meter.getAttribute("aria-valuemax")).toBe("1000");
    expect(await page.locator("#chart g:has(title)").count()).toBe(30);
    await page.getByText("Show as a table").click();
    const rows = await page.locator("#days tbody tr").allInnerTexts();
    expect(rows.slice(0, 2)).toEqual(["20 Nov\t1\t0\t0\t1", "19 Nov\t100,000\t98,765\t123,456\t40,000"]);
    expect(await page.getByRole("heading", { name: "Last 30 days" }).count()).toBe(1);
    await expectUsable(page);
  });

  it("says whether a larger plan would have helped, from the counts of the service", async () => {
    const { key: free } = await petstore.newKey("free");
    const page = await open("/usage");
    await enter(page, free);
    await page.getByText("No limit refused a request in the last 30 days: a larger plan would not").waitFor();
    expect(await page.locator("#doubt").isVisible()).toBe(false);
    // More than two minutes admit, because a minute may begin meanwhile; too few for a ban.
    await Promise.all(Array.from({ length: 150 }, () => petstore.call("/v1/nowhere", free)));
    await page
      .getByText("On 1 of the last 30 days, the limit per minute refused requests. The Pro plan")
      .waitFor();
    expect(await page.locator("#doubt").isVisible()).toBe(true);
    expect(await page.locator("#chart rect.refused-0").count()).toBe(1);
  });
});
