// A real browser for tests: the machine's own Chromium, driven by playwright-core, which brings none.

import { existsSync } from "node:fs";
import { chromium } from "playwright-core";

const USUAL_PLACES = [
  "/usr/bin/chromium",
  "/usr/bin/chromium-browser",
  "/usr/bin/google-chrome",
  "/snap/bin/chromium",
  "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
  "/Applications/Chromium.app/Contents/MacOS/Chromium",
  "C:\\Program Files\\Google\\Chrome\\Application\\chrome.exe",
];

/** The program that CHROMIUM names, or one at a usual place; undefined if this machine has none. */
export function findBrowser(): string | undefined {
  const { CHROMIUM } = process.env;
  if (CHROMIUM !== undefined && !existsSync(CHROMIUM))
    throw new Error(`CHROMIUM names no program: ${CHROMIUM}`);
  return CHROMIUM ?? USUAL_PLACES.find(existsSync);
}

/** Starts a browser that asks nobody for anything by itself. Whoever starts it closes it. */
export function openBrowser(executablePath: string) {
  const quiet = ["background-networking", "component-update", "sync", "quic"].map(
    (each) => `--disable-${each}`,
  );
  // Its sandbox can't be had as root, which is what containers run as; it loads nothing but our own pages.
  return chromium.launch({ executablePath, args: [...quiet, "--no-sandbox", "--no-first-run"] });
}
