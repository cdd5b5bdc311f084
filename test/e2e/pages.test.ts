// What is published beside the operations: the document and its guide as they are served, and both pages in a real browser,
// against the real service: what a developer sees who opens them, and what they say when something is wrong.

import { once } from "node:events";
import { existsSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { keys } from "../../scripts/keys.ts";
import { MESSAGES } from "../../src/http/messages.ts";
import { newSecret } from "../../src/keys/secret.ts";
import { openApiDocument } from "../../src/openapi/document.ts";
import { fillGuide } from "../../src/openapi/guide.ts";
import { HEADERS } from "../../src/openapi/headers.ts";
import type { UsageBody } from "../../src/rate-limit/usage/usage-body.ts";
import { findBrowser, openBrowser } from "../support/e2e/browser.ts";
import { writePastDays } from "../support/e2e/past-days.ts";
import { ban, emptyState, npmRun, outcomeOf, start } from "../support/e2e/petstore.ts";
import { runHere } from "../support/e2e/run-here.ts";

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
  service = await start(state);
  origin = service.origin;
  key = await newKey("business");
  limitedKey = await newKey("enterprise", "--per-minute", "9", "--per-day", "1");
  bannedKey = await newKey("enterprise", "--per-minute", "9", "--per-day", "1");
  await call("/v1/pets", {}, limitedKey);
  await ban(origin, bannedKey);
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
  return JSON.parse((await runHere("keys", keys, words)).stdout).key;
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
async function open(
  path: string,
  options: BrowserContextOptions = {},
  prepare: (page: Page) => unknown = () => {},
) {
  if (browser === undefined) throw new Error("there is no browser");
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

/** Has the browser refuse storage, as it does to those who have switched it off. */
function forbidStorage(page: Page): Promise<unknown> {
  return page.addInitScript(`
    Object.defineProperty(window, "sessionStorage", { get() { throw new DOMException("denied", "SecurityError"); } })`);
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
    expect(response.headers.get("Cross-Origin-Resource-Policy")).toBe("cross-origin");
    const guide = fillGuide(await readFile("src/openapi/guide.md", "utf8"));
    expect(await response.json()).toEqual(JSON.parse(JSON.stringify(openApiDocument(guide))));
  });
});

describe("npm run build", () => {
  it("removes what an earlier version has published", async () => {
    await writeFile("dist/viewer-0.0.0.js", "old");
    expect(await npmRun("build", [])).toEqual({ exitCode: 0, stdout: "", stderr: "" });
    expect(existsSync("dist/viewer-0.0.0.js")).toBe(false);
    expect(existsSync("dist/openapi.json")).toBe(true);
  });
});

describe("the guide", () => {
  it("names no header that there is not", async () => {
    const guide = await readFile("src/openapi/guide.md", "utf8");
    const named = [...guide.matchAll(/`([A-Z][A-Za-z]*(?:-[A-Z][A-Za-z]*)+)`|-H "([A-Za-z-]+):/g)].map(
      ([, inProse, inCommand]) => inProse ?? inCommand ?? "",
    );
    const requestHeaders = ["Authorization", "Content-Type", "Idempotency-Key"];
    for (const name of named) expect([...Object.keys(HEADERS), ...requestHeaders]).toContain(name);
    expect(named.length).toBeGreaterThan(10);
  });

  it.each(["plans", "errors"])("has the table of %s that the README has", async (name) => {
    expect(await readFile("README.md", "utf8")).toContain(`\n${fillGuide(`{{${name}}}`)}\n`);
  });
});

describe("the recipe of the guide and the README for 64-bit integers", () => {
  /** The recipe as it is published, and more uses of its functions; it ends with `outcome`. */
  async function program(): Promise<string> {
    const { info } = (await (await fetch(`${origin}/openapi.json`)).json()) as {
      info: { description: string };
    };
    const [, recipe = ""] = info.description.match(/## Exact 64-bit integers\n.*?```js\n(.*?)```/s) ?? [];
    expect(await readFile("README.md", "utf8")).toContain(recipe);
    return `
      const baseUrl = "${origin}/v1";
      const key = "${key}";
      ${recipe}
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
  ])("sends and reads every digit on %s", async (_, node) => {
    const script = `${await program()}; console.log(outcome)`;
    expect(await outcomeOf(node, ["--input-type=module", "--eval", script])).toEqual({
      exitCode: 0,
      stdout: `${OUTCOME}\n`,
      stderr: "",
    });
  });

  it.skipIf(executablePath === undefined)("sends and reads every digit in a browser", async () => {
    const { page } = await open("/");
    expect(await page.evaluate(`(async () => { ${await program()}; return outcome })()`)).toBe(OUTCOME);
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
    expect(headers.get("Cross-Origin-Resource-Policy")).toBe("same-origin");
    expect(headers.get("Permissions-Policy")).toContain("geolocation=()");
    expect(headers.get("Strict-Transport-Security")).toBe("max-age=31536000");
  });

  it.each(["/", "/usage"])("%s has every blank filled in", async (path) => {
    const page = await (await fetch(origin + path)).text();
    expect(page).toContain("<!doctype html>");
    expect(page).not.toMatch(/\{\{|undefined/);
  });

  it("come with a viewer that a browser may keep, because its version is in its path", async () => {
    const [, script = ""] = (await (await fetch(origin)).text()).match(/src="(\/viewer-[^"]*)"/) ?? [];
    expect(script).toMatch(/^\/viewer-\d+\.\d+\.\d+\//);
    const { headers } = await fetch(origin + script);
    expect(headers.get("Cache-Control")).toBe("public, max-age=31536000, immutable");
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

  it("shows what others have stored as text, whatever it is", async () => {
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
    // Nor has anything been tried that the Content-Security-Policy would have stopped.
    expect(errors).toEqual([]);
    expect(foreign).toEqual([]);
  });

  it("takes no orders from its address", async () => {
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

  it("sends a creation with all the digits of its numbers", async () => {
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
    ["what can't be sent as a key", () => "pet_„quoted“", "This is not an API key"],
  ])("with %s, says so in a sentence that looks like a problem", async (_, secret, sentence) => {
    const { page } = await open("/");
    expect(await sentenceAbout(page, secret())).toContain(sentence);
    const colour = (selector: string) =>
      page.evaluate(`getComputedStyle(document.querySelector("${selector}")).borderLeftColor`);
    expect(await colour(".explanation")).toBe(await colour("#viewer-problem"));
    // So does not what went well.
    await page.getByLabel("Your API key").fill(key);
    await page.getByRole("button", { name: "Execute" }).click();
    await page.locator(".explanation", { hasText: "Done." }).waitFor();
    expect(await colour(".explanation")).not.toBe(await colour("#viewer-problem"));
  });

  it.each([
    ["emptied", (page: Page) => page.getByLabel("Your API key").fill("")],
    [
      "forgotten on another page",
      (page: Page) =>
        page.evaluate(`
          sessionStorage.clear();
          dispatchEvent(new PageTransitionEvent("pageshow", { persisted: true }))`),
    ],
  ])("does not show a key that was %s, nor the answer to it", async (_, forget) => {
    const { page } = await open("/");
    await sentenceAbout(page, key);
    expect(await page.locator(".curl").first().textContent()).toContain(key);
    await forget(page);
    await page.locator(".explanation").waitFor({ state: "detached" });
    expect(await page.content()).not.toContain(key);
  });

  it("does not show a key that was emptied before its answer came", async () => {
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

  it("opens and shows the operation that its address names, and no other", async () => {
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
    // What is not an operation stays what it is.
    await page.evaluate("location.hash = '#rate-limits'");
    await isOnTop("#rate-limits");
    expect(page.url()).toBe(`${origin}/#rate-limits`);
  });

  it("without a network, says so in a sentence, and goes on when it is back", async () => {
    const { page, context } = await open("/");
    await page.locator(".opblock").first().waitFor();
    await context.setOffline(true);
    expect(await sentenceAbout(page, key)).toContain("The service can't be reached.");
    await context.setOffline(false);
    await page.getByRole("button", { name: "Execute" }).click();
    await page.locator("pre.body").waitFor();
  });

  it("says so if its console can't be loaded, and shows all else", async () => {
    const { page } = await open("/", {}, (each) =>
      each.route("**/swagger-ui-bundle.js", (route) => route.abort()),
    );
    expect(await page.getByRole("alert").textContent()).toContain("The console can't be loaded.");
    expect(await page.locator(".operations li").count()).toBe(4);
  });

  it("sends what is wrong too, because the service says best what is wrong with it", async () => {
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

  it("shows no answer while it waits for the next", async () => {
    const { page } = await open("/");
    await sentenceAbout(page, key);
    await page.route("**/v1/pets?*", () => {});
    await page.getByRole("button", { name: "Execute" }).click();
    await page.locator(".explanation").waitFor({ state: "detached" });
  });

  it("has examples that can be pasted: they name this service", async () => {
    const { page } = await open("/");
    const [first] = await page.locator(".guide pre").allTextContents();
    expect(first).toContain(`curl -i ${origin}/v1/pets`);
    expect(await page.locator(".guide code").getByText("petstore.example").count()).toBe(0);
  });

  it("works where a browser allows no storage", async () => {
    const { page } = await open("/", {}, forbidStorage);
    expect(await sentenceAbout(page, key)).toMatch(/^Done\. /);
  });

  it("goes dark and light with the machine", async () => {
    const { page } = await open("/", { colorScheme: "dark" });
    await page.locator("html.dark-mode .opblock").first().waitFor();
    await page.emulateMedia({ colorScheme: "light" });
    await page.locator("html:not(.dark-mode) .opblock").first().waitFor();
  });

  it("can be read without JavaScript", async () => {
    const { page } = await open("/", { javaScriptEnabled: false });
    expect(await page.locator(".operations li").allTextContents()).toEqual([
      "GET /v1/pets List pets",
      "POST /v1/pets Add a pet",
      "GET /v1/pets/{petId} Get a pet",
      "GET /v1/usage Get the usage of the key",
    ]);
    expect(await page.locator("noscript").textContent()).toContain("needs JavaScript");
    // What a browser takes for a tag is not shown.
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

  it.each(["light", "dark"] as const)("is accessible, %s, with an answer on it", async (colorScheme) => {
    const { page } = await open("/", { colorScheme });
    await sentenceAbout(page, key);
    expect(await accessibilityProblems(page)).toEqual([]);
  });
});

describe.skipIf(executablePath === undefined)("the usage page", () => {
  /** Opens it with a key. */
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

  it("shows plan, both windows and their resets, and asks nobody but the service", async () => {
    const secret = await newKey("free");
    await call("/v1/pets", {}, secret);
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
    expect(await page.locator("#chart title").last().textContent()).toMatch(/: 20 admitted, 0 refused$/);
  });

  it("shows 30 days as bars and as a table, admitted and refused", async () => {
    const secret = await newKey("free");
    await call("/v1/pets", {}, secret);
    await writePastDays(service, state, [{ admitted: 1000, refused: 250 }], Date.now());
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
      "what is no key",
      () => "pet_short",
      "This is not an API key: keys are pet_ followed by 38 letters and digits.",
    ],
    ["a wrong key", () => newSecret(), "Invalid API key."],
  ])("with %s, says so in a sentence", async (_, secret, sentence) => {
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
  ])("with %s, says so in a sentence, and shows its windows", async (_, secret, sentence) => {
    const { page } = await usageOf(secret());
    await page.getByText(sentence).waitFor();
    expect(await page.getByRole("meter", { name: "Today (UTC)" }).getAttribute("aria-valuenow")).toBe("1");
  });

  it("without a network, says so and keeps what was known; when it is back, goes on", async () => {
    const { page, context } = await usageOf(key);
    await page.getByRole("meter").first().waitFor();
    await context.setOffline(true);
    const problem = page.getByRole("alert");
    await problem.getByText("The service can't be reached.").waitFor();
    expect(await page.getByRole("meter").count()).toBe(2);
    await context.setOffline(false);
    await problem.waitFor({ state: "hidden" });
  });

  it("says so when there is no answer in time, and keeps what was known", async () => {
    // The clock that runs out after ten seconds does so when the test says so.
    const { page } = await usageOf(key, {}, (each) =>
      each.addInitScript(`AbortSignal.timeout = () => (window.patience = new AbortController()).signal`),
    );
    await page.getByRole("meter").first().waitFor();
    await page.route("**/v1/usage", () => {});
    await page.waitForRequest("**/v1/usage");
    await page.evaluate("patience.abort()");
    await page.getByText("The page shows the last known data.").waitFor();
    expect(await page.getByRole("meter").count()).toBe(2);
  });

  // What the service never answers, but what stands before it may.
  it.each([
    [
      "a refusal",
      401,
      JSON.stringify({ code: "unauthorized", message: MESSAGES.unauthorized.unknown, status: 401 }),
      "Invalid API key.",
    ],
    ["a page in place of an answer", 200, "<!doctype html>", "Unexpected response with status 200."],
    ["JSON that is no answer", 200, "{}", "Unexpected response with status 200."],
    ["a gateway's error", 502, "Bad gateway", "Unexpected response with status 502."],
  ])("says so after %s, and goes on when it is over", async (_, status, body, sentence) => {
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

  it("asks again when the service says that it makes sense, and not before", async () => {
    const { page } = await usageOf(key, {}, (each) => each.clock.install());
    await page.getByRole("meter").first().waitFor();
    const body = '{"code":"service_unavailable","message":"the counters can not be reached","status":503}';
    await page.route("**/v1/usage", (route) =>
      route.fulfill({ status: 503, headers: { "Retry-After": "30" }, body }),
    );
    await page.clock.runFor(2_000);
    await page.getByText("The counters can not be reached. The page shows the last known data.").waitFor();
    let asked = 0;
    page.on("request", () => (asked += 1));
    await page.clock.runFor(29_000);
    expect(asked).toBe(0);
    const askedAgain = page.waitForRequest("**/v1/usage");
    await page.clock.runFor(1_000);
    await askedAgain;
  });

  it("asks every other second while it is looked at, and not when it is not", async () => {
    const { page } = await usageOf(key, {}, (each) => each.clock.install());
    await page.getByRole("meter").first().waitFor();
    let asked = 0;
    page.on("request", () => (asked += 1));
    const show = (state: string) =>
      page.evaluate(`
        Object.defineProperty(document, "visibilityState", { value: "${state}", configurable: true });
        document.dispatchEvent(new Event("visibilitychange"))`);
    await show("hidden");
    await page.clock.runFor(60_000);
    expect(asked).toBe(0);
    const askedAgain = page.waitForRequest("**/v1/usage");
    await show("visible");
    await askedAgain;
    expect(asked).toBe(1);
  });

  it("shows the key that is in the field, though an answer for another one comes later", async () => {
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

  it("shows the key of its tab to whoever comes back to it", async () => {
    const { page } = await usageOf(key);
    await page.getByRole("meter").first().waitFor();
    const free = await newKey("free");
    await page.evaluate(`
      sessionStorage.setItem("petstore-api-key", "${free}");
      dispatchEvent(new PageTransitionEvent("pageshow", { persisted: true }))`);
    await page.getByText("This key is on the Free plan.").waitFor();
    expect(await page.getByLabel("Your API key").inputValue()).toBe(free);
  });

  it("tells the time of the reader, and the day if it is another", async () => {
    const { page } = await usageOf(limitedKey, { timezoneId: "Asia/Tokyo" });
    const state = page.locator("#state");
    await state.getByText(/^This key is on the Enterprise plan\./).waitFor();
    expect(await state.textContent()).toMatch(/exhausted until (\d+ \w+ at )?09:00:00 GMT\+9\.$/);
  });

  describe("of what the service says,", () => {
    const nowMs = Date.parse("2026-11-20T12:34:20Z");
    const minute = { limit: 60, used: 0, remaining: 60, reset: nowMs / 1000 + 40 };
    const day = { limit: 1000, used: 0, remaining: 1000, reset: nowMs / 1000 + 41_140 };
    const days = Array.from({ length: 30 }, (_, index) => {
      const date = new Date(nowMs - (29 - index) * 86_400_000).toISOString().slice(0, 10);
      return { date, admitted: index * 10, refused: index === 29 ? 60 : 0 };
    });

    /** The page on a machine whose clock is an hour slow, about a key that stands so. */
    async function drawn(usage: Partial<UsageBody>) {
      const body = JSON.stringify({ plan: "free", minute, day, bannedUntil: null, days, ...usage });
      const headers = { "Content-Type": "application/json", Date: new Date(nowMs).toUTCString() };
      const { page } = await usageOf(key, {}, async (each) => {
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

    it("draws the gauges, by the clock of the service", async () => {
      const { gauge } = await drawn({
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
    ])("says:%s", async (sentence, usage) => {
      const { text } = await drawn(usage);
      expect(await text("#state")).toBe(`This key is on the Free plan.${sentence}`);
    });

    it("draws the days, and says what is in the picture", async () => {
      const { page, text } = await drawn({});
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

  it("takes no notice of space around a key", async () => {
    const { page } = await usageOf(`  ${key}\t`);
    await page.getByRole("meter").first().waitFor();
  });

  it("fits the figures of large plans into its gauges", async () => {
    const secret = await newKey("enterprise", "--per-minute", "1000000000", "--per-day", "1000000000");
    const { page } = await usageOf(secret);
    await page.getByRole("meter").first().waitFor();
    expect(await page.locator("#day .of").textContent()).toBe("of 1B");
    const dial = page.getByRole("meter", { name: "Today (UTC)" });
    expect(await dial.getAttribute("aria-valuetext")).toBe("0 of 1,000,000,000 used");
  });

  it("works where a browser allows no storage", async () => {
    const { page } = await usageOf(key, {}, forbidStorage);
    await page.getByRole("meter").first().waitFor();
  });

  it("keeps the key in its tab only, until it is forgotten", async () => {
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

  it.each(["light", "dark"] as const)("is accessible, %s", async (colorScheme) => {
    const { page } = await usageOf(key, { colorScheme });
    await page.getByRole("meter").first().waitFor();
    expect(await accessibilityProblems(page)).toEqual([]);
  });

  it.each([320, 390, 1280])("fits into a window of %d pixels, and so does the reference", async (width) => {
    await createPet("n".repeat(255));
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
