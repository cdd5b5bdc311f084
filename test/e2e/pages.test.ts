// The static assets as served: the OpenAPI document and its guide, and both pages in a real browser against the real service.

import { once } from "node:events";
import { existsSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { ERROR_STATUS } from "../../src/http/errors.ts";
import { MESSAGES } from "../../src/http/messages.ts";
import { newSecret } from "../../src/keys/secret.ts";
import { openApiDocument } from "../../src/openapi/document.ts";
import { fillGuide } from "../../src/openapi/guide.ts";
import { HEADERS } from "../../src/openapi/headers.ts";
import type { UsageBody } from "../../src/rate-limit/usage/usage-body.ts";
import { findBrowser, openBrowser } from "../support/e2e/browser.ts";
import { writePastDays } from "../support/e2e/past-days.ts";
import { ban, npmRun, runProcess } from "../support/e2e/petstore.ts";
import { sharedPetstore } from "../support/e2e/shared-petstore.ts";

const executablePath = findBrowser();
if (executablePath === undefined) {
  process.stderr.write("Chromium not found: skipping browser tests. Set CHROMIUM to its path.\n");
}

/** Above 2^53, so that rounding shows. */
const LARGE = "9223372036854775807";

const petstore = sharedPetstore();
let origin: string;
let browser: Browser | undefined;
let key: string;
let limitedKey: string;
let bannedKey: string;
let axe: string;

beforeAll(async () => {
  ({ origin } = petstore);
  key = await newKey("business");
  limitedKey = await newKey("enterprise", "--per-minute", "9", "--per-day", "1");
  bannedKey = await newKey("enterprise", "--per-minute", "9", "--per-day", "1");
  await petstore.call("/v1/pets", limitedKey);
  await ban(origin, bannedKey);
  axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
  if (executablePath !== undefined) browser = await openBrowser(executablePath);
});

afterAll(async () => {
  await browser?.close();
});

async function newKey(plan: string, ...limits: string[]): Promise<string> {
  return (await petstore.newKey(plan, ...limits)).key;
}

function createPet(name: string): Promise<Response> {
  const body = `{"name":"${name}","categoryId":${LARGE}}`;
  return petstore.call("/v1/pets", key, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body,
  });
}

/** Opens a page of the service in a new context, and collects errors and requests to other origins. */
async function open(
  path: string,
  options: BrowserContextOptions = {},
  prepare: (page: Page) => unknown = () => {},
) {
  if (browser === undefined) throw new Error("no browser");
  const context = await browser.newContext({ timezoneId: "UTC", ...options });
  onTestFinished(() => context.close());
  const page = await context.newPage();
  await prepare(page);
  const errors: string[] = [];
  const foreign: string[] = [];
  page.on("console", (message) => message.type() === "error" && errors.push(message.text()));
  page.on("pageerror", (error) => errors.push(error.message));
  page.on("request", (request) => {
    const url = new URL(request.url());
    if (url.origin !== origin && url.protocol !== "data:") foreign.push(request.url());
  });
  await page.goto(origin + path);
  return { page, context, errors, foreign };
}

/** Expands an operation of the reference page. */
async function operation(page: Page, name: string) {
  const part = page.locator(`#operations-Pets-${name}`);
  await part.locator(".opblock-summary-control").click();
  await part.getByRole("button", { name: "Execute" }).waitFor();
  return part;
}

/** Lists pets from the reference page with a key, and returns the summary of the response. */
async function listPets(page: Page, secret: string): Promise<string> {
  await page.getByLabel("Your API key").fill(secret);
  const part = await operation(page, "listPets");
  await part.getByRole("button", { name: "Execute" }).click();
  return (await part.locator(".explanation").textContent()) ?? "";
}

/** Makes the browser deny storage, as a user can configure it. */
function forbidStorage(page: Page): Promise<unknown> {
  return page.addInitScript(`
    Object.defineProperty(window, "sessionStorage", { get() { throw new DOMException("denied", "SecurityError"); } })`);
}

/** The violations that axe-core finds on the page. */
function accessibilityProblems(page: Page): Promise<string[]> {
  return page.evaluate(
    `${axe}; axe.run().then(({ violations }) => violations.map(({ id, nodes }) => id + ": " + nodes.map(({ target }) => target)))`,
  );
}

describe("/openapi.json", () => {
  it("is the generated document with the guide, readable by other origins", async () => {
    const response = await fetch(`${origin}/openapi.json`);
    expect(response.headers.get("Content-Type")).toBe("application/json");
    expect(response.headers.get("Access-Control-Allow-Origin")).toBe("*");
    expect(response.headers.get("Cross-Origin-Resource-Policy")).toBe("cross-origin");
    const guide = fillGuide(await readFile("src/openapi/guide.md", "utf8"));
    expect(await response.json()).toEqual(JSON.parse(JSON.stringify(openApiDocument(guide))));
  });
});

describe("npm run build", () => {
  it("removes the files of earlier builds", async () => {
    await writeFile("dist/viewer-0.0.0.js", "old");
    expect(await npmRun("build", [])).toEqual({ exitCode: 0, stdout: "", stderr: "" });
    expect(existsSync("dist/viewer-0.0.0.js")).toBe(false);
    expect(existsSync("dist/openapi.json")).toBe(true);
  });
});

describe("the guide", () => {
  it("names only headers that exist", async () => {
    const guide = await readFile("src/openapi/guide.md", "utf8");
    const named = [...guide.matchAll(/`([A-Z][A-Za-z]*(?:-[A-Z][A-Za-z]*)+)`|-H "([A-Za-z-]+):/g)].map(
      ([, inProse, inCommand]) => inProse ?? inCommand ?? "",
    );
    const requestHeaders = ["Authorization", "Content-Type", "Idempotency-Key"];
    for (const name of named) expect([...Object.keys(HEADERS), ...requestHeaders]).toContain(name);
    expect(named.length).toBeGreaterThan(10);
  });

  it("has the plans and the error codes that the README has", async () => {
    const readme = (await readFile("README.md", "utf8")).replaceAll("\n", " ");
    expect(readme).toContain(fillGuide("{{plans}}").replaceAll("\n", " "));
    for (const [code, status] of Object.entries(ERROR_STATUS))
      expect(readme).toContain(`${status} \`${code}\``);
  });
});

describe("the guide's code for 64-bit integers", () => {
  /** The published code and further calls of its functions. The result is `outcome`. */
  async function program(): Promise<string> {
    const { info } = (await (await fetch(`${origin}/openapi.json`)).json()) as {
      info: { description: string };
    };
    const [, code = ""] = info.description.match(/## Exact 64-bit integers\n.*?```js\n(.*?)```/s) ?? [];
    return `
      const baseUrl = "${origin}/v1";
      const key = "${key}";
      ${code}
      const post = async (pet) =>
        parse(await (await fetch(baseUrl + "/pets", { method: "POST", headers, body: stringify(pet) })).text());
      const odd = { name: 'é "id":12345678901234567890,\\\\', categoryId: -9007199254740993n, status: "sold" };
      const oddAdded = await post(odd);
      const nameless = JSON.parse(stringify({ categoryId: 5n }));
      const [listed] = parse('[{"id":-9223372036854775808,"categoryId":5}]');
      let refused;
      try { stringify({ name: "Rex", categoryId: 5 }) } catch (error) { refused = error.message }
      const outcome = [
        response.status, pet.name, pet.categoryId, typeof pet.id,
        oddAdded.name === odd.name, oddAdded.categoryId, oddAdded.status,
        listed.id, typeof listed.categoryId, refused, JSON.stringify(nameless),
      ].join("|");`;
  }

  const OUTCOME =
    '201|Zoë|9223372036854775807|bigint|true|-9007199254740993|sold|-9223372036854775808|bigint|categoryId: not a bigint|{"categoryId":5}';

  it.each([
    ["the machine's Node", "node"],
    ["the project's Node", process.execPath],
  ])("is exact on %s", async (_, node) => {
    const script = `${await program()}; console.log(outcome)`;
    expect(await runProcess(node, ["--input-type=module", "--eval", script])).toEqual({
      exitCode: 0,
      stdout: `${OUTCOME}\n`,
      stderr: "",
    });
  });

  it.skipIf(executablePath === undefined)("is exact in a browser", async () => {
    const { page } = await open("/");
    expect(await page.evaluate(`(async () => { ${await program()}; return outcome })()`)).toBe(OUTCOME);
  });
});

describe("the pages", () => {
  it.each(["/", "/usage"])("%s loads nothing from other origins, and cannot be framed", async (path) => {
    const { headers } = await fetch(origin + path);
    const policy = Object.fromEntries(
      (headers.get("Content-Security-Policy") ?? "").split("; ").map((each) => {
        const [name, ...values] = each.split(" ");
        return [name, values.join(" ")];
      }),
    );
    expect(policy).toEqual({
      "default-src": "'none'",
      "script-src": "'self'",
      "style-src": "'self'",
      "img-src": "'self' data:",
      "connect-src": "'self'",
      "base-uri": "'none'",
      "form-action": "'none'",
      "frame-ancestors": "'none'",
    });
    expect(headers.get("X-Content-Type-Options")).toBe("nosniff");
    expect(headers.get("X-Frame-Options")).toBe("DENY");
    expect(headers.get("Referrer-Policy")).toBe("no-referrer");
    expect(headers.get("Cross-Origin-Opener-Policy")).toBe("same-origin");
    expect(headers.get("Cross-Origin-Resource-Policy")).toBe("same-origin");
    expect(headers.get("Permissions-Policy")).toContain("geolocation=()");
    expect(headers.get("Strict-Transport-Security")).toBe("max-age=31536000");
  });

  it.each(["/", "/usage"])("%s has no unfilled placeholder", async (path) => {
    const page = await (await fetch(origin + path)).text();
    expect(page).toContain("<!doctype html>");
    expect(page).not.toMatch(/\{\{|undefined/);
  });

  it("load the viewer from a versioned path that browsers may cache forever", async () => {
    const [, script = ""] = (await (await fetch(origin)).text()).match(/src="(\/viewer-[^"]*)"/) ?? [];
    expect(script).toMatch(/^\/viewer-\d+\.\d+\.\d+\//);
    const { headers } = await fetch(origin + script);
    expect(headers.get("Cache-Control")).toBe("public, max-age=31536000, immutable");
  });

  it("are the target of the deprecation link of getPet", async () => {
    const link = (await petstore.call("/v1/pets/1", key)).headers.get("Link") ?? "";
    const [, target = ""] = link.match(/<([^>]*)>; rel="deprecation"/) ?? [];
    const page = await fetch(new URL(target, origin));
    expect(page.headers.get("Content-Type")).toContain("text/html");
    expect(await page.text()).toContain('<h2 id="deprecation">');
  });
});

describe.skipIf(executablePath === undefined)("the reference page", () => {
  it("lists the operations, with requests to the service only", async () => {
    const { page, errors, foreign } = await open("/");
    await page.locator(".opblock").first().waitFor();
    const operations = await page
      .locator(".opblock")
      .evaluateAll((all) => all.map((each) => [each.id, each.classList.contains("opblock-deprecated")]));
    expect(operations).toEqual([
      ["operations-Pets-listPets", false],
      ["operations-Pets-createPet", false],
      ["operations-Pets-getPet", true],
      ["operations-Usage-getUsage", false],
    ]);
    expect(errors).toEqual([]);
    expect(foreign).toEqual([]);
  });

  it("lists pets with the key, and shows the exact body and the headers", async () => {
    await createPet("Methuselah");
    const { page, errors } = await open("/");
    expect(await listPets(page, key)).toMatch(
      /^Done\. \d+ of 1000 requests left until \d\d:\d\d:\d\d UTC\.$/,
    );
    const body = await page.locator("pre.body").textContent();
    expect(body).toContain(`"categoryId": ${LARGE}`);
    const headers = page.locator(".live-responses-table .headerline");
    expect((await headers.allTextContents()).map((line) => line.trim())).toEqual(
      expect.arrayContaining([
        "x-ratelimit-limit: 1000",
        'ratelimit-policy: "minute";q=1000;w=60, "day";q=100000;w=86400',
      ]),
    );
    expect(errors).toEqual([]);
  });

  it("shows stored pets as text, also HTML", async () => {
    const hostile = `<script>document.title = 'mine'</script><img src='x' onerror='document.title = "mine"'>`;
    const { id } = (await (await createPet(hostile.replaceAll('"', '\\"'))).json()) as { id: number };
    const { page, errors, foreign } = await open("/");
    await page.getByLabel("Your API key").fill(key);
    const getPet = await operation(page, "getPet");
    await getPet.getByRole("textbox", { name: "petId" }).fill(`${id}`);
    await getPet.getByRole("button", { name: "Execute" }).click();
    const body = getPet.locator("pre.body");
    expect(JSON.parse((await body.textContent()) ?? "")).toMatchObject({ id, name: hostile });
    expect(await body.locator("*").count()).toBe(0);
    expect(await page.title()).not.toBe("mine");
    // Nothing was blocked by the Content-Security-Policy either.
    expect(errors).toEqual([]);
    expect(foreign).toEqual([]);
  });

  it("ignores configuration in its URL", async () => {
    const elsewhere = encodeURIComponent("https://petstore.example/other.json");
    const markup = encodeURIComponent("<img src=x onerror=alert(1)>");
    const query = `url=${elsewhere}&configUrl=${elsewhere}&persistAuthorization=true&name=${markup}`;
    const { page, errors, foreign } = await open(`/?${query}#/${markup}/${markup}`);
    await page.locator(".opblock").first().waitFor();
    expect(await page.locator(".opblock").count()).toBe(4);
    expect(await page.content()).not.toContain("onerror");
    expect(errors).toEqual([]);
    expect(foreign).toEqual([]);
  });

  it("adds a pet with an exact 64-bit integer", async () => {
    const { page } = await open("/");
    await page.getByLabel("Your API key").fill(key);
    const createPet = await operation(page, "createPet");
    await createPet.getByLabel("Request body").fill(`{"name":"Nessie","categoryId":-${LARGE}}`);
    await createPet.getByRole("button", { name: "Execute" }).click();
    expect(await createPet.locator("pre.body").textContent()).toContain(`"categoryId": -${LARGE}`);
  });

  it.each([
    ["no key", () => "", "Enter an API key above."],
    ["a wrong key", () => newSecret(), "Invalid API key."],
    ["a limited key", () => limitedKey, "Limit of 1 requests per day exceeded; retry in"],
    ["a banned key", () => bannedKey, "The API key is temporarily banned until"],
    ["a malformed key", () => "pet_„quoted“", "This is not an API key"],
  ])("with %s, shows the problem, highlighted", async (_, secret, sentence) => {
    const { page } = await open("/");
    expect(await listPets(page, secret())).toContain(sentence);
    const colour = (selector: string) =>
      page.evaluate(`getComputedStyle(document.querySelector("${selector}")).borderLeftColor`);
    expect(await colour(".explanation")).toBe(await colour("#viewer-problem"));
    // Success is not highlighted.
    await page.getByLabel("Your API key").fill(key);
    await page.getByRole("button", { name: "Execute" }).click();
    await page.locator(".explanation", { hasText: "Done." }).waitFor();
    expect(await colour(".explanation")).not.toBe(await colour("#viewer-problem"));
  });

  it.each([
    ["cleared", (page: Page) => page.getByLabel("Your API key").fill("")],
    [
      "forgotten on another page",
      (page: Page) =>
        page.evaluate(`
          sessionStorage.clear();
          dispatchEvent(new PageTransitionEvent("pageshow", { persisted: true }))`),
    ],
  ])("hides a key that was %s, and its response", async (_, forget) => {
    const { page } = await open("/");
    await listPets(page, key);
    expect(await page.locator(".curl").first().textContent()).toContain(key);
    await forget(page);
    await page.locator(".explanation").waitFor({ state: "detached" });
    expect(await page.content()).not.toContain(key);
  });

  it("hides a key that was cleared before its response arrived", async () => {
    const { page } = await open("/");
    await page.getByLabel("Your API key").fill(key);
    const listPets = await operation(page, "listPets");
    const answer = Promise.withResolvers<void>();
    await page.route("**/v1/pets?*", async (route) => {
      await answer.promise;
      await route.continue();
    });
    await listPets.getByRole("button", { name: "Execute" }).click();
    await listPets.locator(".loading").waitFor({ state: "attached" });
    await page.getByLabel("Your API key").fill("");
    answer.resolve();
    await listPets.locator(".loading").waitFor({ state: "detached" });
    expect(await page.content()).not.toContain(key);
  });

  it("expands and scrolls to the operation in its URL", async () => {
    const { page } = await open("/#/Usage/getUsage", { viewport: { width: 800, height: 300 } });
    const isOnTop = (part: string) =>
      page.locator(part).evaluate(`(part) => new Promise((resolve) => {
        const begin = ([{ isIntersecting }]) => isIntersecting && resolve();
        new IntersectionObserver(begin, { rootMargin: "0px 0px -200px 0px" }).observe(part);
      })`);
    await isOnTop("#operations-Usage-getUsage .opblock-summary");
    await page.locator("#operations-Usage-getUsage .execute").waitFor();
    await page.evaluate("location.hash = '#/Pets/createPet'");
    await isOnTop("#operations-Pets-createPet .opblock-summary");
    await page.locator("#operations-Pets-createPet .execute").waitFor();
    expect(await page.locator(".opblock.is-open").count()).toBe(2);
    // Other fragments keep their meaning.
    await page.evaluate("location.hash = '#rate-limits'");
    await isOnTop("#rate-limits");
    expect(page.url()).toBe(`${origin}/#rate-limits`);
  });

  it("reports a lost network connection, and works again afterwards", async () => {
    const { page, context } = await open("/");
    await page.locator(".opblock").first().waitFor();
    await context.setOffline(true);
    expect(await listPets(page, key)).toContain("The service can't be reached.");
    await context.setOffline(false);
    await page.getByRole("button", { name: "Execute" }).click();
    await page.locator("pre.body").waitFor();
  });

  it("reports a console that can't be loaded, and shows everything else", async () => {
    const { page } = await open("/", {}, (each) =>
      each.route("**/swagger-ui-bundle.js", (route) => route.abort()),
    );
    expect(await page.getByRole("alert").textContent()).toContain("The console can't be loaded.");
    expect(await page.locator(".operations li").count()).toBe(4);
  });

  it("sends invalid parameters, and shows the service's error", async () => {
    const { page } = await open("/");
    await page.getByLabel("Your API key").fill(key);
    const listPets = await operation(page, "listPets");
    await listPets.getByLabel("limit").fill("0");
    await listPets.getByRole("button", { name: "Execute" }).click();
    const sentence = await listPets.locator(".explanation").textContent();
    expect(sentence).toContain("Limit: must be an integer from 1 to 100.");
  });

  it("does not send the examples of parameters", async () => {
    const { page } = await open("/");
    for (const [name, control] of [
      ["listPets", "cursor"],
      ["createPet", "Idempotency-Key"],
      ["getPet", "petId"],
    ] as const) {
      const part = await operation(page, name);
      expect(await part.getByRole("textbox", { name: control }).inputValue()).toBe("");
    }
    const sent = page.waitForRequest("**/v1/pets*");
    await page.locator("#operations-Pets-listPets").getByRole("button", { name: "Execute" }).click();
    expect(new URL((await sent).url()).search).toBe("?limit=20");
  });

  it.each([320, 390, 1280])("fits into a window of %d pixels", async (width) => {
    await createPet("n".repeat(255));
    const { page } = await open("/", { viewport: { width, height: 800 } });
    await listPets(page, key);
    expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(width);
  });

  it("hides the previous response while a request is pending", async () => {
    const { page } = await open("/");
    await listPets(page, key);
    await page.route("**/v1/pets?*", () => {});
    await page.getByRole("button", { name: "Execute" }).click();
    await page.locator(".explanation").waitFor({ state: "detached" });
  });

  it("has examples with the URL of this service", async () => {
    const { page } = await open("/");
    const [first] = await page.locator(".guide pre").allTextContents();
    expect(first).toContain(`curl -i ${origin}/v1/pets`);
    expect(await page.locator(".guide code").getByText("petstore.example").count()).toBe(0);
  });

  it("works without browser storage", async () => {
    const { page } = await open("/", {}, forbidStorage);
    expect(await listPets(page, key)).toMatch(/^Done\. /);
  });

  it("follows the colour scheme of the system", async () => {
    const { page } = await open("/", { colorScheme: "dark" });
    await page.locator("html.dark-mode .opblock").first().waitFor();
    await page.emulateMedia({ colorScheme: "light" });
    await page.locator("html:not(.dark-mode) .opblock").first().waitFor();
  });

  it("is readable without JavaScript", async () => {
    const { page } = await open("/", { javaScriptEnabled: false });
    expect(await page.locator(".operations li").allTextContents()).toEqual([
      "GET /v1/pets List pets",
      "POST /v1/pets Add a pet",
      "GET /v1/pets/{petId} Get a pet",
      "GET /v1/usage Get the usage of the key",
    ]);
    expect(await page.locator("noscript").textContent()).toContain("needs JavaScript");
    // The text is escaped.
    expect((await page.locator("pre").allTextContents()).join()).toContain(
      "Link: <https://petstore.example/v1/pets",
    );
    for (const entry of await page.locator(".contents a").all()) {
      expect(await page.locator((await entry.getAttribute("href")) ?? "").count()).toBe(1);
    }
    const headings = await page.locator("h2").allTextContents();
    expect(headings).toEqual([
      "Operations",
      "Getting started",
      "Authentication",
      "Pagination",
      "Rate limits",
      "Bans",
      "Errors",
      "Idempotency",
      "Exact 64-bit integers",
      "Deprecation",
    ]);
  });

  it.each(["light", "dark"] as const)(
    "is accessible in the %s scheme, with a response",
    async (colorScheme) => {
      const { page } = await open("/", { colorScheme });
      await listPets(page, key);
      expect(await accessibilityProblems(page)).toEqual([]);
    },
  );
});

describe.skipIf(executablePath === undefined)("the usage page", () => {
  /** Opens the page with a key. */
  async function usageOf(
    secret: string,
    options: BrowserContextOptions = {},
    prepare: (page: Page) => unknown = () => {},
  ) {
    const opened = await open("/usage", options, prepare);
    await opened.page.getByLabel("Your API key").fill(secret);
    await opened.page.getByRole("button", { name: "Show" }).click();
    return opened;
  }

  it("shows the plan and both windows, with requests to the service only", async () => {
    const secret = await newKey("free");
    await petstore.call("/v1/pets", secret);
    const { page, errors, foreign } = await usageOf(secret);
    const day = page.getByRole("meter", { name: "Today (UTC)" });
    await day.waitFor();
    expect(await day.getAttribute("aria-valuetext")).toBe("1 of 1,000 used");
    expect(await page.getByRole("meter", { name: "This minute" }).getAttribute("aria-valuemax")).toBe("60");
    expect(await page.locator("#state").textContent()).toBe("This key is on the Free plan.");
    expect(await page.locator("#minute .reset").textContent()).toMatch(/^resets in \d+ s$/);
    expect(await page.locator("#day .left").textContent()).toBe("999 left");
    expect(errors).toEqual([]);
    expect(foreign).toEqual([]);
  });

  it("updates by itself when the key is used", async () => {
    const secret = await newKey("free");
    const { page } = await usageOf(secret);
    const left = page.locator("#day .left");
    await left.getByText("1,000 left").waitFor();
    const arc = () => page.locator("#day .used").getAttribute("stroke-dasharray");
    expect(await arc()).toBe("0 100");
    for (let request = 0; request < 20; request += 1) await petstore.call("/v1/pets", secret);
    await left.getByText("980 left").waitFor();
    expect(await arc()).toBe("2 100");
    expect(await page.locator("#chart title").last().textContent()).toMatch(/: 20 admitted, 0 refused$/);
  });

  it("shows 30 days as bars and as a table", async () => {
    const secret = await newKey("free");
    await petstore.call("/v1/pets", secret);
    await writePastDays(petstore.service, petstore.state, [{ admitted: 1000, refused: 250 }], Date.now());
    const { page } = await usageOf(secret);
    const bars = page.locator("#chart g:has(title)");
    await bars.first().waitFor();
    expect(await bars.count()).toBe(30);
    const yesterday = bars.nth(28);
    expect(await yesterday.locator("title").textContent()).toMatch(/: 1,000 admitted, 250 refused$/);
    const height = (kind: string) =>
      yesterday.locator(`rect.${kind}`).evaluate((bar) => Number(bar.getAttribute("height")));
    expect((await height("admitted")) / (await height("refused"))).toBeCloseTo(4, 5);
    await page.getByText("Show as a table").click();
    const cells = await page.locator("#days tr").nth(1).locator("td").allTextContents();
    expect(cells).toEqual(["1,000", "250"]);
  });

  it.each([
    ["no key", () => "", "Enter an API key."],
    [
      "a malformed key",
      () => "pet_short",
      "This is not an API key: keys are pet_ followed by 38 letters and digits.",
    ],
    ["a wrong key", () => newSecret(), "Invalid API key."],
  ])("with %s, shows the problem", async (_, secret, sentence) => {
    const { page } = await usageOf(secret());
    await page.getByText(sentence).waitFor();
    expect(await page.getByRole("meter").count()).toBe(0);
  });

  it.each([
    ["a limited key", () => limitedKey, /Its limit per day is exhausted until .*00:00:00 UTC\.$/],
    [
      "a banned key",
      () => bannedKey,
      /It is temporarily banned until .*\d\d:\d\d:\d\d UTC for ignoring 429 responses/,
    ],
  ])("with %s, shows the reason and the windows", async (_, secret, sentence) => {
    const { page } = await usageOf(secret());
    await page.getByText(sentence).waitFor();
    expect(await page.getByRole("meter", { name: "Today (UTC)" }).getAttribute("aria-valuenow")).toBe("1");
  });

  it("keeps the last figures while the network is down, and updates afterwards", async () => {
    const { page, context } = await usageOf(key);
    await page.getByRole("meter").first().waitFor();
    await context.setOffline(true);
    const problem = page.getByRole("alert");
    await problem.getByText("The service can't be reached.").waitFor();
    expect(await page.getByRole("meter").count()).toBe(2);
    await context.setOffline(false);
    await problem.waitFor({ state: "hidden" });
  });

  it("reports a timeout, and keeps the last figures", async () => {
    // The test triggers the timeout.
    const { page } = await usageOf(key, {}, (each) =>
      each.addInitScript(`AbortSignal.timeout = () => (window.timeout = new AbortController()).signal`),
    );
    await page.getByRole("meter").first().waitFor();
    await page.route("**/v1/usage", () => {});
    await page.waitForRequest("**/v1/usage");
    await page.evaluate("timeout.abort()");
    await page.getByText("The page shows the last known data.").waitFor();
    expect(await page.getByRole("meter").count()).toBe(2);
  });

  // Responses of something in front of the service.
  it.each([
    [
      "a 401",
      401,
      JSON.stringify({ code: "unauthorized", message: MESSAGES.unauthorized.unknown, status: 401 }),
      "Invalid API key.",
    ],
    ["a page instead of JSON", 200, "<!doctype html>", "Unexpected response with status 200."],
    ["unexpected JSON", 200, "{}", "Unexpected response with status 200."],
    ["a gateway error", 502, "Bad gateway", "Unexpected response with status 502."],
  ])("reports %s, and updates again afterwards", async (_, status, body, sentence) => {
    const { page } = await usageOf(key, {}, (each) => each.clock.install());
    await page.getByRole("meter").first().waitFor();
    await page.route("**/v1/usage", (route) => route.fulfill({ status, body }));
    await page.clock.runFor(2_000);
    await page.getByRole("alert").getByText(sentence).waitFor();
    await page.unroute("**/v1/usage");
    await page.clock.runFor(60_000);
    await page.getByRole("alert").waitFor({ state: "hidden" });
    expect(await page.getByRole("meter").count()).toBe(2);
  });

  it("waits for Retry-After before the next request", async () => {
    const { page } = await usageOf(key, {}, (each) => each.clock.install());
    await page.getByRole("meter").first().waitFor();
    const body = '{"code":"service_unavailable","message":"the counters can not be reached","status":503}';
    await page.route("**/v1/usage", (route) =>
      route.fulfill({ status: 503, headers: { "Retry-After": "30" }, body }),
    );
    await page.clock.runFor(2_000);
    await page.getByText("The counters can not be reached. The page shows the last known data.").waitFor();
    let requests = 0;
    page.on("request", () => (requests += 1));
    await page.clock.runFor(29_000);
    expect(requests).toBe(0);
    const nextRequest = page.waitForRequest("**/v1/usage");
    await page.clock.runFor(1_000);
    await nextRequest;
  });

  it("polls only while it is visible", async () => {
    const { page } = await usageOf(key, {}, (each) => each.clock.install());
    await page.getByRole("meter").first().waitFor();
    let requests = 0;
    page.on("request", () => (requests += 1));
    const show = (state: string) =>
      page.evaluate(`
        Object.defineProperty(document, "visibilityState", { value: "${state}", configurable: true });
        document.dispatchEvent(new Event("visibilitychange"))`);
    await show("hidden");
    await page.clock.runFor(60_000);
    expect(requests).toBe(0);
    const nextRequest = page.waitForRequest("**/v1/usage");
    await show("visible");
    await nextRequest;
    expect(requests).toBe(1);
  });

  it("ignores a late response for an earlier key", async () => {
    const free = await newKey("free");
    let answer = () => {};
    const { page } = await open("/usage", {}, (each) =>
      each.route("**/v1/usage", async (route) => {
        if (route.request().headers().authorization?.endsWith(free)) {
          await new Promise<void>((resolve) => (answer = resolve));
        }
        await route.continue();
      }),
    );
    const field = page.getByLabel("Your API key");
    for (const secret of [free, key]) {
      await field.fill(secret);
      await page.getByRole("button", { name: "Show" }).click();
    }
    await page.getByText("This key is on the Business plan.").waitFor();
    const late = page.waitForResponse(
      (response) => response.request().headers().authorization?.endsWith(free) ?? false,
    );
    answer();
    await (await late).finished();
    expect(await page.locator("#state").textContent()).toBe("This key is on the Business plan.");
  });

  it("uses the tab's current key after navigation from the cache", async () => {
    const { page } = await usageOf(key);
    await page.getByRole("meter").first().waitFor();
    const free = await newKey("free");
    await page.evaluate(`
      sessionStorage.setItem("petstore-api-key", "${free}");
      dispatchEvent(new PageTransitionEvent("pageshow", { persisted: true }))`);
    await page.getByText("This key is on the Free plan.").waitFor();
    expect(await page.getByLabel("Your API key").inputValue()).toBe(free);
  });

  it("shows times in the reader's time zone, with the date if it differs", async () => {
    const { page } = await usageOf(limitedKey, { timezoneId: "Asia/Tokyo" });
    const state = page.locator("#state");
    await state.getByText(/^This key is on the Enterprise plan\./).waitFor();
    expect(await state.textContent()).toMatch(/exhausted until (\d+ \w+ at )?09:00:00 GMT\+9\.$/);
  });

  describe("with a fixed response", () => {
    const nowMs = Date.parse("2026-11-20T12:34:20Z");
    const minute = { limit: 60, used: 0, remaining: 60, reset: nowMs / 1000 + 40 };
    const day = { limit: 1000, used: 0, remaining: 1000, reset: nowMs / 1000 + 41_140 };
    const days = Array.from({ length: 30 }, (_, index) => {
      const date = new Date(nowMs - (29 - index) * 86_400_000).toISOString().slice(0, 10);
      return { date, admitted: index * 10, refused: index === 29 ? 60 : 0 };
    });

    /** The page with this usage, on a machine whose clock is an hour slow. */
    async function show(usage: Partial<UsageBody>, options: BrowserContextOptions = {}) {
      const body = JSON.stringify({ plan: "free", minute, day, bannedUntil: null, days, ...usage });
      const headers = { "Content-Type": "application/json", Date: new Date(nowMs).toUTCString() };
      const { page } = await usageOf(key, options, async (each) => {
        await each.clock.install({ time: nowMs - 3_600_000 });
        await each.route("**/v1/usage", (route) => route.fulfill({ body, headers }));
      });
      await page.getByRole("meter").first().waitFor();
      const text = (selector: string) => page.locator(selector).first().textContent();
      const gauge = async (id: string) => ({
        figures: [await text(`#${id} strong`), await text(`#${id} .of`), await text(`#${id} .left`)],
        reset: await text(`#${id} .reset`),
        arc: await page.locator(`#${id} .used`).getAttribute("stroke-dasharray"),
        level: await page.locator(`#${id}`).getAttribute("data-level"),
      });
      return { page, text, gauge };
    }

    it.each([320, 390, 600, 1280])("fits into a window of %d pixels", async (width) => {
      const minuteAfterMidnight = { ...day, reset: nowMs / 1000 + 86_340 };
      const { page, gauge } = await show({ day: minuteAfterMidnight }, { viewport: { width, height: 800 } });
      expect((await gauge("day")).reset).toBe("resets in 23 h 59 min");
      expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(width);
      const overflows =
        "[...document.querySelectorAll('.gauge')].map((each) => each.scrollWidth - each.clientWidth)";
      expect(await page.evaluate(overflows)).toEqual([0, 0]);
    });

    it("draws the gauges with the clock of the service", async () => {
      const { gauge } = await show({
        minute: { ...minute, limit: 10, used: 25, remaining: 0 },
        day: { ...day, limit: 100_000, used: 1, remaining: 99_999 },
      });
      expect(await gauge("minute")).toEqual({
        figures: ["25", "of 10", "0 left"],
        reset: "resets in 40 s",
        arc: "100 100",
        level: "empty",
      });
      expect(await gauge("day")).toEqual({
        figures: ["1", "of 100K", "99,999 left"],
        reset: "resets in 11 h 26 min",
        arc: "1 100",
        level: "fine",
      });
    });

    it.each([
      ["", {}],
      [" Its limit per minute is exhausted until 12:35:00 UTC.", { minute: { ...minute, remaining: 0 } }],
      [
        " Its limit per day is exhausted until 21 November at 00:00:00 UTC.",
        { minute: { ...minute, remaining: 0 }, day: { ...day, remaining: 0 } },
      ],
      [
        " It is temporarily banned until 12:44:20 UTC for ignoring 429 responses.",
        { minute: { ...minute, remaining: 0 }, bannedUntil: nowMs / 1000 + 600 },
      ],
      [
        " It is temporarily banned until 12:44:20 UTC for ignoring 429 responses. Its limit per day is exhausted until 21 November at 00:00:00 UTC.",
        { day: { ...day, remaining: 0 }, bannedUntil: nowMs / 1000 + 600 },
      ],
      ["", { bannedUntil: nowMs / 1000 - 1 }],
    ])("shows the state:%s", async (sentence, usage) => {
      const { text } = await show(usage);
      expect(await text("#state")).toBe(`This key is on the Free plan.${sentence}`);
    });

    it("draws the days, with a text alternative", async () => {
      const { page, text } = await show({});
      expect(await page.locator("#chart .grid text").allTextContents()).toEqual([
        "0",
        "100",
        "200",
        "300",
        "400",
      ]);
      expect(await page.locator("#chart .labels text").allTextContents()).toEqual([
        "23 Oct",
        "30 Oct",
        "6 Nov",
        "13 Nov",
        "20 Nov",
      ]);
      expect(await page.locator("#chart title").last().textContent()).toBe(
        "20 Nov: 290 admitted, 60 refused",
      );
      expect(await page.locator("#chart svg").getAttribute("aria-label")).toContain(
        "4,350 admitted, 60 refused",
      );
      await page.getByText("Show as a table").click();
      expect((await text("#days tr"))?.trim()).toBe("20 Nov29060");
      expect(await page.getByRole("heading", { name: "Last 30 days" }).count()).toBe(1);
    });
  });

  it("ignores whitespace around a key", async () => {
    const { page } = await usageOf(`  ${key}\t`);
    await page.getByRole("meter").first().waitFor();
  });

  it("abbreviates large limits in the gauges", async () => {
    const secret = await newKey("enterprise", "--per-minute", "1000000000", "--per-day", "1000000000");
    const { page } = await usageOf(secret);
    await page.getByRole("meter").first().waitFor();
    expect(await page.locator("#day .of").textContent()).toBe("of 1B");
    const dial = page.getByRole("meter", { name: "Today (UTC)" });
    expect(await dial.getAttribute("aria-valuetext")).toBe("0 of 1,000,000,000 used");
  });

  it("works without browser storage", async () => {
    const { page } = await usageOf(key, {}, forbidStorage);
    await page.getByRole("meter").first().waitFor();
  });

  it('keeps the key in its tab only, until "Forget it"', async () => {
    const { page, context } = await usageOf(key);
    await page.getByRole("meter").first().waitFor();
    await page.reload();
    await page.getByRole("meter").first().waitFor();
    expect(page.url()).toBe(`${origin}/usage`);
    expect(await page.evaluate("localStorage.length + document.cookie.length")).toBe(0);
    expect(await page.evaluate("getComputedStyle(document.querySelector('#key')).webkitTextSecurity")).toBe(
      "disc",
    );

    const other = await context.newPage();
    await other.goto(`${origin}/usage`);
    expect(await other.getByLabel("Your API key").inputValue()).toBe("");

    await page.getByRole("button", { name: "Forget key" }).click();
    expect(await page.getByRole("meter").count()).toBe(0);
    expect(await page.getByRole("alert").count()).toBe(0);
    expect(await page.evaluate("document.activeElement.id")).toBe("key");
    await page.reload();
    expect(await page.getByLabel("Your API key").inputValue()).toBe("");
  });

  it.each(["light", "dark"] as const)("is accessible in the %s scheme", async (colorScheme) => {
    const { page } = await usageOf(key, { colorScheme });
    await page.getByRole("meter").first().waitFor();
    expect(await accessibilityProblems(page)).toEqual([]);
  });
});

describe.skipIf(executablePath === undefined)("a page of another origin", () => {
  it("can call the service and read the rate-limit headers, also of errors", async () => {
    const shop = createServer((_, response) => {
      response.setHeader("Content-Type", "text/html");
      response.end("<!doctype html><title>A shop</title>");
    }).listen(0, "127.0.0.1");
    await once(shop, "listening");
    onTestFinished(() => void shop.close());
    const address = shop.address();
    if (browser === undefined || address === null || typeof address === "string")
      throw new Error("no browser or address");
    const context = await browser.newContext();
    onTestFinished(() => context.close());
    const page = await context.newPage();
    await page.goto(`http://127.0.0.1:${address.port}`);
    const answers = await page.evaluate(
      async ([url, secret]) => {
        const headers = { Authorization: `Bearer ${secret}`, "Content-Type": "application/json" };
        const responses = [
          await fetch(`${url}?limit=1`, { headers }),
          // Both headers need a preflight.
          await fetch(url, {
            method: "POST",
            headers: { ...headers, "Idempotency-Key": "from-the-shop" },
            body: '{"name":"Rex","categoryId":1}',
          }),
          await fetch(`${url}?limit=0`, { headers }),
          await fetch(url),
        ];
        return responses.map((response) => ({
          status: response.status,
          read: [
            "X-RateLimit-Limit",
            "X-RateLimit-Remaining",
            "X-RateLimit-Reset",
            "RateLimit",
            "RateLimit-Policy",
          ].every((name) => response.headers.get(name) !== null),
        }));
      },
      [`${origin}/v1/pets`, key] as const,
    );
    expect(answers).toEqual([200, 201, 400, 401].map((status) => ({ status, read: true })));
  });
});
