// The machine's Chromium, driven by playwright-core, which does not install a browser.

import { existsSync } from "node:fs";
import { chromium } from "playwright-core";

const KNOWN_PATHS = [
  "/usr/bin/chromium",
  "/usr/bin/chromium-browser",
  "/usr/bin/google-chrome",
  "/snap/bin/chromium",
  "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
  "/Applications/Chromium.app/Contents/MacOS/Chromium",
  "C:\\Program Files\\Google\\Chrome\\Application\\chrome.exe",
];

/** The path in CHROMIUM, or a known path that exists. */
export function findBrowser(): string | undefined {
  const { CHROMIUM } = process.env;
  if (CHROMIUM !== undefined && !existsSync(CHROMIUM))
    throw new Error(`CHROMIUM names no program: ${CHROMIUM}`);
  return CHROMIUM ?? KNOWN_PATHS.find(existsSync);
}

/** Starts a browser without background requests. The caller closes it. */
export function openBrowser(executablePath: string) {
  const disabled = ["background-networking", "component-update", "sync", "quic"].map(
    (feature) => `--disable-${feature}`,
  );
  // Chromium's sandbox does not work as root, the user of most containers. Tests load only the service's own pages.
  return chromium.launch({ executablePath, args: [...disabled, "--no-sandbox", "--no-first-run"] });
}
