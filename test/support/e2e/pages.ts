// The pages in a browser: what every test of them expects, whatever it does.

import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import type { Browser, Page } from "playwright-core";
import { afterEach, expect } from "vitest";
import { newPage } from "./browser.ts";

/**
 * A function that opens a page of the service, in a context of its own; `prepare` runs before the page is loaded. No test may leave an
 * error on the console, or a request to another origin.
 */
export function pageOpener(service: { origin: string }, browser: () => Browser) {
  const problems: string[] = [];
  afterEach(() => expect(problems.splice(0)).toEqual([]));
  return async (path: string, prepare: (page: Page) => unknown = () => {}): Promise<Page> => {
    const permissions = ["clipboard-read", "clipboard-write"];
    const page = await newPage(browser(), { timezoneId: "UTC", permissions });
    await prepare(page);
    page.on("pageerror", ({ message }) => void problems.push(message));
    page.on("console", (message) => {
      // The browser also reports responses with an error status.
      const isStatus = message.text().startsWith("Failed to load resource");
      if (message.type() === "error" && !isStatus) problems.push(message.text());
    });
    page.on("request", (request) => {
      const url = request.url();
      if (!url.startsWith(`${service.origin}/`) && !url.startsWith("data:"))
        problems.push(`request to ${url}`);
    });
    await page.goto(service.origin + path);
    return page;
  };
}

/** The page fits into the window at each width, and axe-core finds nothing with and without the layout of a phone, in both colour schemes. */
export async function expectUsable(page: Page): Promise<void> {
  await page.evaluate(await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8"));
  const gauges = "[...document.querySelectorAll('.gauge')]";
  const isWide = `${gauges}.some((each) => each.scrollWidth > each.clientWidth)`;
  const found = "violations.map(({ id, nodes }) => id + ': ' + nodes.map(({ target }) => target))";
  for (const [width, colorScheme, options] of [
    [320, "light", "{}"],
    [768, "light", undefined],
    [1280, "light", "{}"],
    [1680, "dark", "{ runOnly: 'color-contrast' }"],
  ] as const) {
    await page.setViewportSize({ width, height: 800 });
    await page.emulateMedia({ colorScheme });
    expect(await page.evaluate(`document.documentElement.scrollWidth > ${width} || ${isWide}`)).toBe(false);
    if (options === undefined) continue;
    // The page follows before the next frame; then colours change in transitions.
    const transitions = "Promise.allSettled(document.getAnimations().map(({ finished }) => finished))";
    await page.evaluate(`new Promise(requestAnimationFrame).then(() => ${transitions}).then(() => {})`);
    expect(await page.evaluate(`axe.run(${options}).then(({ violations }) => ${found})`)).toEqual([]);
  }
}
