// The machine's Chromium, driven by playwright-core, which does not install a browser; and the reference page in it.

import { existsSync } from "node:fs";
import {
  type Browser,
  type BrowserContextOptions,
  chromium,
  type Locator,
  type Page,
  type Request,
} from "playwright-core";
import type { UsageBody } from "../../../src/keys/usage/usage-body.ts";
import { EXAMPLE_MS } from "../../../src/openapi/examples.ts";
import { WAIT_MS } from "../hang.ts";

const KNOWN_PATHS = [
  // Debian's build for tests, which takes half the processor time for each page.
  "/usr/bin/chromium-headless-shell",
  "/usr/bin/chromium",
  "/usr/bin/chromium-browser",
  "/usr/bin/google-chrome",
  "/snap/bin/chromium",
  "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
  "/Applications/Chromium.app/Contents/MacOS/Chromium",
  "C:\\Program Files\\Google\\Chrome\\Application\\chrome.exe",
];

/** The path in CHROMIUM, or a known path that exists. */
export const CHROMIUM = process.env.CHROMIUM ?? KNOWN_PATHS.find(existsSync);

/** Starts the browser, with further switches. The caller closes it. */
export function openBrowser(args: string[] = []) {
  if (CHROMIUM === undefined) throw new Error("Chromium not found: set CHROMIUM to its path");
  return chromium.launch({ executablePath: CHROMIUM, args, timeout: WAIT_MS });
}

/** A page in a context of its own. */
export async function newPage(browser: Browser, options: BrowserContextOptions = {}): Promise<Page> {
  const context = await browser.newContext(options);
  context.setDefaultTimeout(WAIT_MS);
  return context.newPage();
}

/** Holds back requests of a page, by default all for `pattern`, until the returned function is called. */
export async function holdBack(
  page: Page,
  pattern: string,
  isHeld = (_: Request) => true,
): Promise<() => void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  await page.route(pattern, async (route) => {
    if (isHeld(route.request())) await promise;
    // The page may have given up the request.
    await route.fallback().catch(() => {});
  });
  return resolve;
}

/**
 * How many requests the page has sent since it was loaded. For pages that are loaded after this. It counts at once, while an event of a
 * request may come after what follows.
 */
export async function callCounter(page: Page): Promise<() => Promise<number>> {
  const counting = "const send = fetch; fetch = (...all) => (fetch.calls++, send(...all)); fetch.calls = 0;";
  await page.addInitScript(counting);
  return () => page.evaluate<number>("fetch.calls");
}

export const keyField = (page: Page): Locator => page.getByLabel("Your API key");

/** The console of an operation of the reference page, such as `listPets`. */
export function consoleOf(page: Page, operation: string) {
  const form = page.locator(`#console-${operation}`);
  return {
    form,
    /** The field of an input, and what is wrong with it; also of the `key`. */
    field: (name: string) => form.locator(`.inputs [name="${name}"]`),
    wrong: (name: string) => form.locator(`[id="${operation}-${name}-wrong"]`),
    send: form.getByRole("button", { name: "Send" }),
    stop: form.getByRole("button", { name: "Stop" }),
    outcome: form.locator(".outcome"),
    body: form.locator(".body"),
    sample: form.locator(".sample:visible"),
  };
}

/** Answers the usage page instead of the service, by default at the time of the examples. */
export function answerUsage(page: Page, usage: UsageBody, nowMs = EXAMPLE_MS) {
  const headers = { Date: new Date(nowMs).toUTCString() };
  return page.route("**/v1/usage", (route) => route.fulfill({ json: usage, headers }));
}
