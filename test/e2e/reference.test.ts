// The reference page: as served, and in a browser against the service. What follows from the fields alone: test/unit/reference.test.ts.

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser, Page, Request } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { Petstore } from "../../client/src/index.ts";
import { HEADER } from "../../src/http/header-names.ts";
import { FIELD_PROBLEMS } from "../../src/http/messages.ts";
import { newKeyId, newSecret } from "../../src/keys/secret.ts";
import { ERROR_MESSAGES } from "../../src/openapi/error-examples.ts";
import { REMEDIES } from "../../src/openapi/errors.ts";
import { MALFORMED_KEY } from "../../src/site/key.ts";
import { UNREACHABLE } from "../../src/site/text.ts";
import { CHROMIUM, callCounter, consoleOf, holdBack, newPage, openBrowser } from "../support/e2e/browser.ts";
import { expectUsable, pageOpener } from "../support/e2e/pages.ts";
import { runProcess } from "../support/e2e/petstore.ts";
import { sharedPetstore } from "../support/e2e/shared-petstore.ts";
import { PATIENT } from "../support/hang.ts";
import { DOCUMENT, EXAMPLES } from "../support/openapi-document.ts";

const petstore = sharedPetstore();
let key: string;
let browser: Browser;

/** Values that operations accept, with a pet of this file. */
const VALID: Record<string, Record<string, string>> = {
  listPets: { limit: "2" },
  createPet: { name: "Rex", categoryId: "9223372036854775807" },
};

beforeAll(async () => {
  ({ key } = await petstore.newKey("business"));
  // It retries: on a machine that stalls, wrangler's proxy loses connections.
  const { pets } = new Petstore({ apiKey: key, baseURL: petstore.origin, ...PATIENT });
  const { id } = await pets.create({ name: "Rex", categoryId: 1n });
  VALID.getPet = { petId: `${id}` };
  if (CHROMIUM !== undefined) browser = await openBrowser();
});

afterAll(() => browser?.close());

const open = pageOpener(petstore, () => browser);

describe("the reference page as served", () => {
  let html: string;

  beforeAll(async () => {
    html = await (await fetch(petstore.origin)).text();
  });

  const all = (pattern: RegExp) => [...html.matchAll(pattern)].map(([, found]) => found);

  it("has the id of each part once, and each link within the page leads to one", () => {
    const ids = all(/ id="(.*?)"/g);
    expect(ids).toEqual([...new Set(ids)]);
    expect(ids).toEqual(expect.arrayContaining(all(/href="#(.*?)"/g)));
  });

  it("keeps the addresses of parts that were published", () => {
    const operations = ["/Pets/listPets", "/Pets/createPet", "/Pets/getPet", "/Usage/getUsage"];
    const topics =
      "operations getting-started javascript-and-typescript-client authentication pagination rate-limits bans errors server-timing idempotency exact-64-bit-integers deprecation changes";
    expect(all(/ id="(.*?)"/g)).toEqual(expect.arrayContaining([...operations, ...topics.split(" ")]));
  });

  it("has each input, each schema, and an example of each response, in operations and without a script", () => {
    const unescaped = (text: string) =>
      text.replaceAll("&quot;", '"').replaceAll("&lt;", "<").replaceAll("&amp;", "&");
    const shown = all(/<pre[^>]*><code>([{[].*?)<\/code>/gs).map((text = "") => JSON.parse(unescaped(text)));
    for (const [path, methods] of Object.entries(DOCUMENT.paths))
      for (const [method, { operationId, summary, parameters = [] }] of Object.entries(methods)) {
        expect(html).toContain(`<h3 id="${operationId}">${summary}</h3>`);
        expect(html).toContain(`${method.toUpperCase()}</b> <code>/v1${path}</code>`);
        for (const { name } of parameters) expect(html).toContain(`<dt id="${operationId}-${name}">`);
      }
    for (const name of Object.keys(DOCUMENT.components.schemas))
      expect(html).toContain(`<h3 id="${name.toLowerCase()}">${name}</h3>`);
    const first = EXAMPLES.filter(
      ({ id, status }, index) =>
        id !== "otherRequests" &&
        EXAMPLES.findIndex((each) => each.id === id && each.status === status) === index,
    );
    for (const { name, value } of first) expect(shown, name).toContainEqual(value);
  });

  it("has the releases, the latest one open", () => {
    expect(html).toMatch(/<details open>\s*<summary>.*<\/summary>/);
    expect(html).toMatch(/<summary>1\.0\.0 .*<\/summary>\s*<ul>\s*<li>List pets in pages/);
  });
});

describe.skipIf(CHROMIUM === undefined)("the console", () => {
  let page: Page;
  /** Requests to the API. */
  const sent: Request[] = [];
  let calls: () => Promise<number>;

  beforeAll(async () => {
    page = await open("/");
    page.on("request", (request) => {
      if (new URL(request.url()).pathname.startsWith("/v1/")) sent.push(request);
    });
    calls = await callCounter(page);
  });

  // Fresh fields, and the key of the tab.
  beforeEach(async () => {
    await page.evaluate(`sessionStorage.clear(); sessionStorage.setItem("petstore-api-key", "${key}")`);
    await page.reload();
    sent.length = 0;
  });

  afterEach(async () => {
    await page.unrouteAll();
    await page.context().setOffline(false);
  });

  /** Fills in what an operation accepts. */
  async function filledIn(operation: string) {
    const parts = consoleOf(page, operation);
    for (const [name, value] of Object.entries(VALID[operation] ?? {})) await parts.field(name).fill(value);
    return parts;
  }

  /** Sends, and waits until the service has answered. */
  async function answered({ send, outcome }: ReturnType<typeof consoleOf>): Promise<string> {
    let text: string;
    do {
      await send.click();
      text =
        (await outcome
          .getByText(/^(?!Waiting)./)
          .first()
          .textContent()) ?? "";
      // On a machine that stalls, wrangler's proxy loses the connection of a POST, which it does not repeat by itself.
    } while (text.includes("Network connection lost"));
    return text;
  }

  const focused = () =>
    page.evaluate<string>("document.activeElement.name || document.activeElement.className");

  // What an operation's fields refuse: test/unit/reference.test.ts. The consoles share their states.
  it.each([
    ["createPet", "categoryId", "9223372036854775808"],
    ["getPet", "petId", "1.0"],
  ])(
    "%s: nothing is sent that the form knows to be wrong, and then it can be sent",
    async (id, name, value) => {
      const parts = consoleOf(page, id);
      await parts.field("key").fill("");
      const required = Object.entries(VALID[id] ?? {});
      await parts.send.click();
      expect([await focused(), await parts.wrong("key").textContent()]).toEqual(["key", "Enter an API key."]);
      for (const [each] of required)
        expect(await parts.wrong(each).textContent()).toBe(FIELD_PROBLEMS.required);
      await parts.field("key").fill("pet_„quoted“");
      await parts.send.click();
      expect(await parts.wrong("key").textContent()).toBe(MALFORMED_KEY);
      await parts.field("key").fill(key);

      await filledIn(id);
      await parts.field(name).fill(value);
      await parts.field(name).press("Enter");
      const problem = FIELD_PROBLEMS.int64;
      expect([await focused(), await parts.wrong(name).textContent()]).toEqual([name, problem]);
      expect(await parts.field(name).getAttribute("aria-invalid")).toBe("true");
      expect(await calls()).toBe(0);

      await parts.field(name).fill("");
      expect(await parts.wrong(name).textContent()).toBe("");
      await filledIn(id);
      expect(await answered(parts)).toMatch(
        /^20[01]: [A-Z][a-z ]+\. [\d,]+ of 1,000 requests left until \d\d:\d\d:\d\d UTC\.$/,
      );
      expect(sent.map((each) => decodeURI(each.url())).join()).not.toMatch(/^$|[{}]/);

      // A field that is cleared after a success.
      const before = await calls();
      for (const [each, valid] of required) {
        await parts.field(each).fill("");
        await parts.send.click();
        const shown = [await focused(), await parts.wrong(each).textContent()];
        expect(shown).toEqual([each, FIELD_PROBLEMS.required]);
        await parts.field(each).fill(valid);
      }
      expect(await calls()).toBe(before);
      expect(await answered(parts)).toMatch(/^20[01]: /);
    },
  );

  it("a second Send waits for the first, Stop ends it, a failure of the network says what it can be, and then it can be sent", async () => {
    const parts = await filledIn("createPet");
    const answer = await holdBack(page, "**/v1/**");
    await parts.send.dblclick();
    await parts.outcome.getByText("Waiting for the response…").waitFor();
    expect(await calls()).toBe(1);
    await parts.stop.click();
    await parts.outcome.getByText("Stopped.").waitFor();
    expect([await parts.stop.isVisible(), await focused()]).toEqual([false, "send"]);
    answer();
    await page.unrouteAll();

    await page.context().setOffline(true);
    expect(await answered(parts)).toBe("No response: this device is offline.");
    await page.context().setOffline(false);
    await page.route("**/v1/**", (route) => route.abort());
    expect(await answered(parts)).toBe(`No response. ${UNREACHABLE}`);
    await page.unrouteAll();
    expect(await answered(parts)).toMatch(/^201: /);
    // What was not answered is sent again with the same key.
    const keys = sent.map((each) => each.headers()[HEADER.idempotencyKey.toLowerCase()]);
    expect(new Set(keys).size).toBe(1);
  });

  it("an invalid key, a limit and a ban are explained, and then it can be sent", async () => {
    const parts = await filledIn("createPet");
    await parts.field("key").fill(newSecret(newKeyId()));
    expect(await answered(parts)).toMatch(/^401: invalid API key\. \d+ of 60 requests left until /);
    const hint = parts.outcome.locator("p").last();
    expect(await hint.textContent()).toBe(REMEDIES.unauthorized);

    const { key: used } = await petstore.newKey("enterprise", { day: 1 });
    await petstore.call("/v1/pets", used);
    await parts.field("key").fill(used);
    expect(await answered(parts)).toMatch(/^429: limit of 1 requests per day exceeded; retry in \d+ s/);
    expect(await hint.textContent()).toMatch(/^Wait \d+ seconds before the next request\.$/);
    // It works at a limit.
    const usage = await answered(consoleOf(page, "getUsage"));
    expect(usage).toMatch(/^200: The usage of the key\. 0 of 1 requests left until /);

    const { message } = ERROR_MESSAGES.key_banned.ban;
    const json = { code: "key_banned", message, status: 429 };
    const left = {
      [HEADER.rateLimitLimit]: "60",
      [HEADER.rateLimitRemaining]: "0",
      [HEADER.rateLimitReset]: "1",
    };
    await page.route("**/v1/**", (route) =>
      route.fulfill({ status: 429, json, headers: { ...left, [HEADER.retryAfter]: "600" } }),
    );
    expect(await answered(parts)).toContain("the API key is temporarily banned until");
    expect(await hint.textContent()).toBe(
      "Stop the clients that ignore 429 responses, and wait 600 seconds.",
    );
    await page.unrouteAll();
    await parts.field("key").fill(key);
    expect(await answered(parts)).toMatch(/^201: /);
  });

  it("shows stored pets as text, also HTML, with exact integers, and leads from page to page", async () => {
    const name = `<script>document.title = 'mine'</script><img src='x' onerror='document.title = "mine"'>`;
    const parts = await filledIn("createPet");
    await parts.field("name").fill(name);
    await parts.field("categoryId").fill("-9223372036854775807");
    await answered(parts);
    const text = (await parts.body.textContent()) ?? "";
    expect(text).toContain('"categoryId": -9223372036854775807');
    expect(JSON.parse(text)).toMatchObject({ name });
    expect(await parts.body.locator("*").count()).toBe(0);
    expect(await page.title()).not.toBe("mine");

    const list = consoleOf(page, "listPets");
    await list.field("limit").fill("1");
    await answered(list);
    const first = await list.body.textContent();
    const response = page.waitForResponse("**/v1/pets?limit=1&cursor=*");
    await list.form.getByRole("button", { name: "Next page" }).click();
    expect((await response).status()).toBe(200);
    await list.outcome.getByText("200: ").waitFor();
    expect(await list.body.textContent()).not.toBe(first);
  });

  it("hides an answer when another key is entered here or on another page, and ends what waits, without the focus", async () => {
    const parts = await filledIn("listPets");
    await answered(parts);
    await page.evaluate(
      `sessionStorage.clear(); dispatchEvent(new PageTransitionEvent("pageshow", { persisted: true }))`,
    );
    expect([await parts.body.isVisible(), await parts.outcome.textContent()]).toEqual([false, ""]);

    for (const typed of ["listPets", "createPet"]) {
      await parts.field("key").fill(key);
      const answer = await holdBack(page, "**/v1/**");
      await parts.send.click();
      await parts.outcome.getByText("Waiting").waitFor();
      const other = consoleOf(page, typed).field("key");
      await other.press("ControlOrMeta+a");
      await other.pressSequentially("pet_other");
      answer();
      await page.unrouteAll({ behavior: "wait" });
      expect([await focused(), await other.inputValue()]).toEqual(["key", "pet_other"]);
      expect([await parts.body.isVisible(), await parts.stop.isVisible()]).toEqual([false, false]);
      expect(await parts.outcome.textContent()).toBe("Stopped.Sending it again is safe.");
    }
  });

  it("leaves the focus to a user who has gone on", async () => {
    const parts = await filledIn("listPets");
    const answer = await holdBack(page, "**/v1/**");
    await parts.send.click();
    const name = consoleOf(page, "createPet").field("name");
    await name.pressSequentially("Bel");
    answer();
    await parts.body.waitFor();
    await name.pressSequentially("lo");
    expect([await focused(), await name.inputValue()]).toEqual(["name", "Bello"]);
  });

  it("adds a pet once, however often it is sent, and another one with another key", async () => {
    const parts = await filledIn("createPet");
    const token = () => parts.field(HEADER.idempotencyKey).inputValue();
    const first = await token();
    await answered(parts);
    const pet = await parts.body.textContent();
    // What is shown and copied is the request that was sent.
    expect(await parts.sample.textContent()).toContain(first);
    expect(await answered(parts)).toContain("An earlier request with this key has added it.");
    expect(await parts.body.textContent()).toBe(pet);
    await parts.field("name").fill("Bello");
    expect(await token()).not.toBe(first);
    expect(await answered(parts)).not.toContain("An earlier request");
    await parts.field(HEADER.idempotencyKey).fill("mine-1");
    await answered(parts);
    await parts.field("name").fill("Ada");
    expect(await token()).toBe("mine-1");
    // The service refuses another pet with it.
    expect(await answered(parts)).toMatch(/^422: /);
    await parts.field(HEADER.idempotencyKey).fill("");
    await page.route("**/v1/**", (route) => route.abort());
    await answered(parts);
    expect(await parts.outcome.locator("p").last().textContent()).toContain(
      "find out before you send it again",
    );
  });

  it("shows in which field the service has found a mistake, and large responses in part", async () => {
    const parts = consoleOf(page, "listPets");
    await parts.field("cursor").fill("made-up");
    expect(await answered(parts)).toMatch(/^400: cursor: must come from/);
    expect(await parts.wrong("cursor").textContent()).toBe(FIELD_PROBLEMS.cursor);
    await parts.field("cursor").fill("");
    await page.route("**/v1/**", (route) => route.fulfill({ body: "x".repeat(3_000_000) }));
    expect(await answered(parts)).toMatch(/^200: unexpected response\./);
    expect((await parts.body.textContent())?.length).toBe(1_000_000);
  });

  it("sends nothing before its script runs, and keeps what was typed until then", async () => {
    const late = await newPage(browser);
    const loadScript = await holdBack(late, "**/reference.js");
    await late.goto(petstore.origin, { waitUntil: "commit" });
    const { field, send, body } = consoleOf(late, "createPet");
    await field("key").fill(key);
    await field(HEADER.idempotencyKey).fill("typed");
    for (const [name, value] of Object.entries(VALID.createPet ?? {})) await field(name).fill(value);
    expect(await send.isDisabled()).toBe(true);
    await field("name").press("Enter");
    loadScript();
    await send.click();
    await body.waitFor();
    expect(await field(HEADER.idempotencyKey).inputValue()).toBe("typed");
    expect(late.url()).not.toContain(key);
    await late.close();
  });

  it("masks the key where it is shown, and has it whole where it is copied", async () => {
    const parts = await filledIn("createPet");
    const copied = () => page.evaluate<string>("navigator.clipboard.readText()");
    const masked = `Authorization: Bearer pet_…${key.slice(-4)}`;
    const shown = (await parts.sample.textContent()) ?? "";
    expect(shown).toContain(masked);
    const whole = shown.replace(/pet_…..../, key);
    await answered(parts);
    expect(await page.content()).not.toContain(key);
    // What a button says for two seconds is awaited before it is pressed.
    const says = (text: string, press: Promise<void>) =>
      Promise.all([parts.form.getByRole("button", { name: text }).first().waitFor(), press]);
    await says("Copied", parts.form.getByRole("button", { name: "Copy as curl" }).click());
    expect(await copied()).toBe(whole);
    await parts.form.getByRole("button", { name: "Copy body" }).click();
    expect(JSON.parse(await copied())).toMatchObject({ name: "Rex" });

    await page.evaluate(`navigator.clipboard.writeText("").then(() => {
      navigator.clipboard.writeText = () => Promise.reject(new Error("denied")) })`);
    await says("Selected", parts.form.getByRole("button", { name: "Copy", exact: true }).click());
    await page.keyboard.press("ControlOrMeta+c");
    expect(await copied()).toContain(`Bearer ${key}`);
    // From above the sample into it.
    await page.keyboard.press("ControlOrMeta+a");
    await page.keyboard.press("ControlOrMeta+c");
    expect(await copied()).not.toContain(masked);
    await parts.field("key").fill("pet_short");
    expect(await parts.sample.textContent()).toContain("Bearer YOUR_API_KEY");
    await page.reload();
    await parts.field("key").fill("pet_short");
    await says("Copied", parts.form.getByRole("button", { name: "Copy", exact: true }).click());
    expect(await copied()).toContain("Bearer YOUR_API_KEY");
  });

  it("can be used with the keyboard alone, and shows its focus", async () => {
    const parts = consoleOf(page, "createPet");
    await parts.form.getByRole("radio").first().focus();
    const chosen: (string | null)[] = [];
    for (const press of ["ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft"]) {
      await page.keyboard.press(press);
      chosen.push(await page.locator("label:has(:focus:checked)").textContent());
    }
    expect(chosen).toEqual(["TypeScript", "Python", "curl", "Python"]);
    expect(await consoleOf(page, "listPets").sample.textContent()).toContain("import requests");

    const isShown = `(() => {
      const control = document.activeElement;
      // A radio button is invisible, and its label shows the focus.
      const shown = control.type === "radio" ? control.parentElement : control;
      return getComputedStyle(shown).outlineStyle !== "none";
    })()`;
    const order: string[] = [];
    for (let name = ""; name !== "status"; order.push(name)) {
      await page.keyboard.press("Tab");
      name = await focused();
      expect([name, await page.evaluate(isShown)]).toEqual([name, true]);
      await page.keyboard.type(VALID.createPet?.[name] ?? "");
    }
    expect(order).toEqual([
      "copy",
      "sample",
      "key",
      HEADER.idempotencyKey,
      HEADER.prefer,
      "name",
      "categoryId",
      "status",
    ]);
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await parts.outcome.getByText("201: The new pet.").waitFor();
    expect(await focused()).toBe("body");
    await page.keyboard.press("Shift+Tab");
    await page.keyboard.press("Shift+Tab");
    await Promise.all([
      parts.form.getByRole("button", { name: "Copied" }).waitFor(),
      page.keyboard.press("Enter"),
    ]);
    expect(JSON.parse(await page.evaluate("navigator.clipboard.readText()"))).toMatchObject({ name: "Rex" });
    // The language lasts.
    await page.reload();
    expect(await parts.sample.textContent()).toContain("import requests");
  });

  it("on a phone, the answer is in view, has the focus and is announced", async () => {
    await page.setViewportSize({ width: 320, height: 800 });
    const parts = await filledIn("createPet");
    await answered(parts);
    for (const part of [parts.outcome, parts.body]) {
      const { y = -1, height = 0 } = (await part.boundingBox()) ?? {};
      expect(y).toBeGreaterThanOrEqual(0);
      expect(y + height).toBeLessThanOrEqual(800);
    }
    expect(await focused()).toBe("body");
    expect(await parts.outcome.getAttribute("role")).toBe("status");
  });

  // In other languages: samples.test.ts.
  it("copies a command that runs as it is, and does what the console did", async () => {
    if ((await runProcess("curl", ["--version"])).exitCode !== 0) return;
    const folder = await mkdtemp(join(tmpdir(), "petstore-test-"));
    onTestFinished(() => rm(folder, { recursive: true }));
    const name = `O'Hara's "\\n" $(id) \`id\` %s é😀 !!`;
    const parts = consoleOf(page, "createPet");
    await parts.field("name").fill(name);
    await parts.field("categoryId").fill("-9223372036854775808");
    await parts.field("status").selectOption("sold");
    await parts.form.getByText("curl", { exact: true }).click();
    await parts.form.getByRole("button", { name: "Copy", exact: true }).click();
    const file = join(folder, "curl");
    await writeFile(file, await page.evaluate<string>("navigator.clipboard.readText()"));
    expect(await answered(parts)).toMatch(/^201: /);
    const shown = (await parts.body.textContent()) ?? "";
    expect(JSON.parse(shown).name).toBe(name);
    const { exitCode, stdout, stderr } = await runProcess("sh", [file]);
    expect(exitCode, stderr).toBe(0);
    // With the same Idempotency-Key and body, the service repeats the response of the console.
    expect(stdout).toContain(shown.replace(/\n\s*/g, "").replaceAll(": ", ":"));
  });

  it("fits and is accessible, with wrong fields, answers and everything open", async () => {
    const parts = await filledIn("createPet");
    await parts.field("name").fill("n".repeat(255));
    await answered(parts);
    await parts.field("name").fill("");
    await consoleOf(page, "getPet").send.click();
    await page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true");
    await expectUsable(page);
  });
});

describe.skipIf(CHROMIUM === undefined)("the contents", () => {
  it("find operations, fields, error codes and topics, and lead to them", async () => {
    const page = await open("/");
    const found = page.locator(".found a");
    const results = async (text: string) => {
      await page.getByLabel("Find").fill(text);
      return found.allTextContents();
    };
    expect(await results("add a")).toContain("Add a pet");
    expect((await results("CATEGORY")).slice(0, 3)).toEqual([
      ...["categoryId (Add a pet)", "categoryId (NewPet)", "categoryId (Pet)"],
    ]);
    expect(await results("key_banned")).toContain("key_banned (error)");
    expect((await results("limits rate"))[0]).toBe("Rate limits");
    // What only the text of a part has.
    expect(await results("Retry-After")).toContain("Rate limits");
    expect(await results("429")).toContain("Bans");
    expect(await results("zebra")).toEqual([]);
    await page.getByText("0 found").waitFor();
    await results("add a pet");
    await page.keyboard.press("Enter");
    expect(new URL(page.url()).hash).toBe("#/Pets/createPet");
    expect(await page.locator(".all").isVisible()).toBe(true);
  });

  it("mark the part that is read, and are a closed menu on a phone", async () => {
    const currentOf = (page: Page) => page.locator(".contents [aria-current]");
    await currentOf(await open("/"))
      .getByText("Getting started")
      .waitFor();
    const page = await open("/#/Usage/getUsage");
    const current = currentOf(page);
    const expectAtTop = async (id: string, entry: string) => {
      await current.getByText(entry, { exact: true }).waitFor();
      expect(await current.count()).toBe(1);
      const top = await page.evaluate(
        `Math.round(document.getElementById("${id}").getBoundingClientRect().top)`,
      );
      expect(top).toBe(16);
    };
    await expectAtTop("/Usage/getUsage", "Get the usage of the key");
    await page.getByRole("link", { name: "Link to Add a pet" }).click();
    await expectAtTop("/Pets/createPet", "Add a pet");
    await page.getByRole("link", { name: "Deprecation", exact: true }).click();
    await expectAtTop("deprecation", "Deprecation");

    await page.setViewportSize({ width: 320, height: 800 });
    expect(await current.isVisible()).toBe(false);
    await page.getByText("Contents", { exact: true }).click();
    await page.getByRole("link", { name: "Pagination", exact: true }).click();
    expect(await page.locator(".all").isVisible()).toBe(false);
    expect(new URL(page.url()).hash).toBe("#pagination");
  });

  it("take nothing from the URL but the part", async () => {
    const markup = encodeURIComponent("<img src=x onerror=alert(1)>");
    const page = await open(`/?url=${markup}&name=${markup}#/${markup}/${markup}`);
    expect(await page.content()).not.toContain("onerror");
    const [first] = await page.locator(".guide pre").allTextContents();
    expect(first).toContain(`curl -i ${petstore.origin}/v1/pets`);
    expect(await page.locator("main code").getByText("petstore.example").count()).toBe(0);
  });
});
