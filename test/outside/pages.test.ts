// The reference page and the usage page in a real browser, against the real service: what a developer sees who opens them,
// and what they say when something is wrong.

import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { newSecret } from "../../src/keys/secret.ts";
import { openApiDocument } from "../../src/openapi/document.ts";
import { findBrowser, openBrowser } from "./browser.ts";
import { writePastDays } from "./past-days.ts";
import { emptyState, freePort, keys, start } from "./petstore.ts";

const executablePath = findBrowser();
if (executablePath === undefined) {
  process.stderr.write("There is no Chromium here, so its tests are skipped. CHROMIUM can name one.\n");
}

/** More than 2^53, so that whatever rounds it shows. */
const LARGE = "9223372036854775807";

let state: string;
let remove: () => Promise<void>;
let service: Awaited<ReturnType<typeof start>> | undefined;
let origin: string;
let browser: Browser | undefined;
let key: string;
let limitedKey: string;
let bannedKey: string;
let axe: string;

beforeAll(async () => {
  ({ state, remove } = await emptyState());
  const port = await freePort();
  service = await start(state, port);
  origin = `http://localhost:${port}`;
  key = await newKey("business");
  limitedKey = await newKey("enterprise", "--per-minute", "9", "--per-day", "1");
  bannedKey = await newKey("enterprise", "--per-minute", "9", "--per-day", "1");
  await call("/v1/pets", {}, limitedKey);
  // Even if a minute ends meanwhile, more than 60 of these are refused in one.
  for (let request = 0; request < 130; request += 1) await call("/v1/pets", {}, bannedKey);
  axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
  if (executablePath !== undefined) browser = await openBrowser(executablePath);
});

afterAll(async () => {
  await browser?.close();
  await service?.stop();
  await remove();
});

async function newKey(plan: string, ...limits: string[]): Promise<string> {
  const words = ["create", "--name", "a test", "--plan", plan, ...limits, "--json", "--persist-to", state];
  return JSON.parse((await keys(...words)).stdout).key;
}

/** Calls the service past the browser. */
function call(path: string, init: RequestInit = {}, secret = key): Promise<Response> {
  const headers = new Headers(init.headers);
  headers.set("Authorization", `Bearer ${secret}`);
  return fetch(origin + path, { ...init, headers });
}

function createPet(name: string): Promise<Response> {
  const body = `{"name":"${name}","categoryId":${LARGE}}`;
  return call("/v1/pets", { method: "POST", headers: { "Content-Type": "application/json" }, body });
}

/** Opens a page of the service in a new window, and collects what it does that it should not. */
async function open(path: string, options: BrowserContextOptions = {}) {
  if (browser === undefined) throw new Error("there is no browser");
  const context = await browser.newContext(options);
  onTestFinished(() => context.close());
  const page = await context.newPage();
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

/** The part of the reference page about one operation, unfolded. */
async function operation(page: Page, name: string) {
  const part = page.locator(`#operations-Pets-${name}`);
  await part.locator(".opblock-summary-control").click();
  await part.getByRole("button", { name: "Execute" }).waitFor();
  return part;
}

/** Sends a list from the reference page with a key, and returns the sentence about its answer. */
async function sentenceAbout(page: Page, secret: string): Promise<string> {
  await page.getByLabel("Your API key").fill(secret);
  const listPets = await operation(page, "listPets");
  await listPets.getByRole("button", { name: "Execute" }).click();
  return (await listPets.locator(".explanation").textContent()) ?? "";
}

/** What axe-core finds wrong with a page as it is. */
function accessibilityProblems(page: Page): Promise<string[]> {
  return page.evaluate(
    `${axe}; axe.run().then(({ violations }) => violations.map(({ id, nodes }) => id + ": " + nodes.map(({ target }) => target)))`,
  );
}

describe("/openapi.json", () => {
  it("is the document that the code makes, with the guide, and open to other sites", async () => {
    const response = await fetch(`${origin}/openapi.json`);
    expect(response.headers.get("Content-Type")).toBe("application/json");
    expect(response.headers.get("Access-Control-Allow-Origin")).toBe("*");
    const document = (await response.json()) as ReturnType<typeof openApiDocument>;
    expect(document.info.description).toContain("## Authentication");
    expect(document).toEqual(JSON.parse(JSON.stringify(openApiDocument(document.info.description))));
  });
});

describe("the pages", () => {
  it.each(["/", "/usage"])("%s lets nothing in that is not the service's own", async (path) => {
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
    expect(headers.get("Strict-Transport-Security")).toBe("max-age=31536000");
  });

  it("are where the deprecation of getPet leads", async () => {
    const link = (await call("/v1/pets/1")).headers.get("Link") ?? "";
    const [, target = ""] = link.match(/<([^>]*)>; rel="deprecation"/) ?? [];
    const page = await fetch(new URL(target, origin));
    expect(page.headers.get("Content-Type")).toContain("text/html");
    expect(await page.text()).toContain('<h2 id="deprecation">');
  });
});

describe.skipIf(executablePath === undefined)("the reference page", () => {
  it("lists the operations, and asks nobody but the service", async () => {
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

  it("sends a list with the key, and shows the answer to the last digit, and its headers", async () => {
    await createPet("Methuselah");
    const { page, errors } = await open("/");
    expect(await sentenceAbout(page, key)).toMatch(
      /^Done\. \d+ of 1000 requests left until \d\d:\d\d:\d\d\.$/,
    );
    const body = await page.locator("pre.body").textContent();
    expect(body).toContain(`"categoryId": ${LARGE}`);
    const headers = page.locator(".live-responses-table .headerline");
    expect((await headers.allTextContents()).map((line) => line.trim())).toContain("x-ratelimit-limit: 1000");
    expect(errors).toEqual([]);
  });

  it("sends a creation with all the digits of its numbers", async () => {
    const { page } = await open("/");
    await page.getByLabel("Your API key").fill(key);
    const createPet = await operation(page, "createPet");
    await createPet.getByLabel("Request body").fill(`{"name":"Nessie","categoryId":-${LARGE}}`);
    await createPet.getByRole("button", { name: "Execute" }).click();
    expect(await createPet.locator("pre.body").textContent()).toContain(`"categoryId": -${LARGE}`);
  });

  it.each([
    ["no key", () => "", "The API key is missing"],
    ["a wrong key", () => newSecret(), "The API key is not valid."],
    ["a limited key", () => limitedKey, "All 1 requests per day are used up; retry in"],
    ["a banned key", () => bannedKey, "The API key is banned until"],
    ["what can't be sent as a key", () => "pet_„quoted“", "This can't be a key"],
  ])("with %s, says so in a sentence", async (_, secret, sentence) => {
    const { page } = await open("/");
    expect(await sentenceAbout(page, secret())).toContain(sentence);
  });

  it("without a network, says so in a sentence, and goes on when it is back", async () => {
    const { page, context } = await open("/");
    await page.locator(".opblock").first().waitFor();
    await context.setOffline(true);
    expect(await sentenceAbout(page, key)).toContain("There is no answer: the service can't be reached.");
    await context.setOffline(false);
    await page.getByRole("button", { name: "Execute" }).click();
    await page.locator("pre.body").waitFor();
  });

  it("says so if its console can't be loaded, and shows all else", async () => {
    if (browser === undefined) throw new Error("there is no browser");
    const context = await browser.newContext();
    onTestFinished(() => context.close());
    const page = await context.newPage();
    await page.route("**/swagger-ui-bundle.js", (route) => route.abort());
    await page.goto(origin);
    expect(await page.getByRole("alert").textContent()).toContain("The console can't be loaded.");
    expect(await page.locator(".operations li").count()).toBe(4);
  });

  it("can be read without JavaScript", async () => {
    const { page } = await open("/", { javaScriptEnabled: false });
    expect(await page.locator(".operations li").count()).toBe(4);
    const headings = await page.locator("h2").allTextContents();
    expect(headings).toEqual([
      "Operations",
      "Getting started",
      "Authentication",
      "Paging",
      "Limits",
      "Bans",
      "Errors",
      "Sending a creation again",
      "Deprecation",
    ]);
  });

  it.each(["light", "dark"] as const)("is accessible, %s, with an answer on it", async (colorScheme) => {
    const { page } = await open("/", { colorScheme });
    await sentenceAbout(page, key);
    expect(await accessibilityProblems(page)).toEqual([]);
  });
});

describe.skipIf(executablePath === undefined)("the usage page", () => {
  /** Opens it with a key. */
  async function usageOf(secret: string, options: BrowserContextOptions = {}) {
    const opened = await open("/usage", options);
    await opened.page.getByLabel("Your API key").fill(secret);
    await opened.page.getByRole("button", { name: "Show" }).click();
    return opened;
  }

  it("shows plan, both windows and their resets, and asks nobody but the service", async () => {
    const secret = await newKey("free");
    await call("/v1/pets", {}, secret);
    const { page, errors, foreign } = await usageOf(secret);
    const day = page.getByRole("meter", { name: "This day (UTC)" });
    await day.waitFor();
    expect(await day.getAttribute("aria-valuetext")).toBe("1 of 1,000 used");
    expect(await page.getByRole("meter", { name: "This minute" }).getAttribute("aria-valuemax")).toBe("60");
    expect(await page.locator("#state").textContent()).toBe("This key is on the Free plan.");
    expect(await page.locator("#minute .reset").textContent()).toMatch(/^new in \d+ s$/);
    expect(await page.locator("#day .left").textContent()).toBe("999 left");
    expect(errors).toEqual([]);
    expect(foreign).toEqual([]);
  });

  it("moves when the key is used, without being asked", async () => {
    const secret = await newKey("free");
    const { page } = await usageOf(secret);
    const left = page.locator("#day .left");
    await left.getByText("1,000 left").waitFor();
    const arc = () => page.locator("#day .used").getAttribute("stroke-dasharray");
    expect(await arc()).toBe("0 100");
    for (let request = 0; request < 20; request += 1) await call("/v1/pets", {}, secret);
    await left.getByText("980 left").waitFor();
    expect(await arc()).toBe("2 100");
  });

  it("shows 30 days as bars and as a table, admitted and refused", async () => {
    const secret = await newKey("free");
    await call("/v1/pets", {}, secret);
    writePastDays(state, [{ admitted: 1000, refused: 250 }], Date.now());
    const { page } = await usageOf(secret);
    const bars = page.locator("#chart g:has(title)");
    await bars.first().waitFor();
    expect(await bars.count()).toBe(30);
    const yesterday = bars.nth(28);
    expect(await yesterday.locator("title").textContent()).toMatch(/: 1,000 admitted, 250 refused$/);
    const height = (kind: string) =>
      yesterday.locator(`rect.${kind}`).evaluate((bar) => Number(bar.getAttribute("height")));
    expect((await height("admitted")) / (await height("refused"))).toBeCloseTo(4, 5);
    await page.getByText("As a table").click();
    const cells = await page.locator("#days tr").nth(1).locator("td").allTextContents();
    expect(cells).toEqual(["1,000", "250"]);
  });

  it.each([
    ["no key", () => "", "There is no key yet: paste one."],
    ["what is no key", () => "pet_short", "This can't be a key: a key is pet_ and 38 letters and digits."],
    ["a wrong key", () => newSecret(), "The API key is not valid."],
  ])("with %s, says so in a sentence", async (_, secret, sentence) => {
    const { page } = await usageOf(secret());
    await page.getByText(sentence).waitFor();
    expect(await page.getByRole("meter").count()).toBe(0);
  });

  it.each([
    [
      "a limited key",
      () => limitedKey,
      /Its day is used up: the next request is admitted at \d\d:\d\d:\d\d\.$/,
    ],
    [
      "a banned key",
      () => bannedKey,
      /It is banned until \d\d:\d\d:\d\d, because it was used again and again/,
    ],
  ])("with %s, says so in a sentence, and shows its windows", async (_, secret, sentence) => {
    const { page } = await usageOf(secret());
    await page.getByText(sentence).waitFor();
    expect(await page.getByRole("meter", { name: "This day (UTC)" }).getAttribute("aria-valuenow")).toBe("1");
  });

  it("without a network, says so and keeps what was known; when it is back, goes on", async () => {
    const { page, context } = await usageOf(key);
    await page.getByRole("meter").first().waitFor();
    await context.setOffline(true);
    const problem = page.getByRole("alert");
    await problem.getByText("There is no answer: the service can't be reached.").waitFor();
    expect(await page.getByRole("meter").count()).toBe(2);
    await context.setOffline(false);
    await problem.waitFor({ state: "hidden" });
  });

  it("keeps the key in its tab only, until it is forgotten", async () => {
    const { page, context } = await usageOf(key);
    await page.getByRole("meter").first().waitFor();
    await page.reload();
    await page.getByRole("meter").first().waitFor();
    expect(page.url()).toBe(`${origin}/usage`);
    expect(await page.evaluate("localStorage.length + document.cookie.length")).toBe(0);

    const other = await context.newPage();
    await other.goto(`${origin}/usage`);
    expect(await other.getByLabel("Your API key").inputValue()).toBe("");

    await page.getByRole("button", { name: "Forget it" }).click();
    expect(await page.getByRole("meter").count()).toBe(0);
    await page.reload();
    expect(await page.getByLabel("Your API key").inputValue()).toBe("");
  });

  it.each(["light", "dark"] as const)("is accessible, %s", async (colorScheme) => {
    const { page } = await usageOf(key, { colorScheme });
    await page.getByRole("meter").first().waitFor();
    expect(await accessibilityProblems(page)).toEqual([]);
  });

  it.each([390, 1280])("fits into a window of %d pixels, and so does the reference", async (width) => {
    const { page } = await usageOf(key, { viewport: { width, height: 800 } });
    await page.getByRole("meter").first().waitFor();
    const pageWidth = () => page.evaluate("document.documentElement.scrollWidth");
    expect(await pageWidth()).toBe(width);
    await page.goto(origin);
    await sentenceAbout(page, key);
    expect(await pageWidth()).toBe(width);
  });
});

describe.skipIf(executablePath === undefined)("a page of another origin", () => {
  it("can call the service, and read the limit headers, on errors too", async () => {
    const shop = createServer((_, response) => {
      response.setHeader("Content-Type", "text/html");
      response.end("<!doctype html><title>A shop</title>");
    }).listen(0, "127.0.0.1");
    await once(shop, "listening");
    onTestFinished(() => void shop.close());
    const address = shop.address();
    if (browser === undefined || address === null || typeof address === "string") throw new Error("no shop");
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
