// npm run screenshots: takes the pictures of both pages that the documents show, from the real service. The key is on the Free plan and
// was used today; its 29 days before that are invented.

import { join } from "node:path";
import type { Page, Route } from "playwright-core";
import { type Define, newCommand } from "../../scripts/lib/command.ts";
import type { UsageBody } from "../../src/rate-limit/usage/usage-body.ts";

const FOLDER = "docs";

/** Busy on weekdays, and sometimes over the limit. The first is yesterday. */
const PAST_DAYS = Array.from({ length: 29 }, (_, index) => {
  const isQuiet = index % 7 === 5 || index % 7 === 6;
  const wanted = Math.round((isQuiet ? 180 : 760) + 260 * Math.sin(index * 1.7) + 90 * Math.sin(index * 4.1));
  return { admitted: Math.min(1000, Math.max(0, wanted)), refused: Math.max(0, wanted - 1000) };
});

const define: Define = (io) =>
  newCommand(
    "npm run screenshots",
    "Takes the pictures of the reference page and the usage page that the documents show. It needs Chromium: CHROMIUM can name one.",
    "",
    "--folder /tmp",
  )
    .option("--folder <dir>", "where to write the pictures", FOLDER)
    .action(({ folder }) => io.step("Taking pictures", () => takeAll(folder)));

export default define;

async function takeAll(folder: string): Promise<void> {
  const { findBrowser, openBrowser } = await import("../support/e2e/browser.ts");
  const { emptyState, npmRun, start } = await import("../support/e2e/petstore.ts");
  const executablePath = findBrowser();
  if (executablePath === undefined) throw new Error("there is no Chromium here: CHROMIUM can name one");
  const { state, remove } = await emptyState();
  const service = await start(state);
  const { origin } = service;
  const browser = await openBrowser(executablePath);
  try {
    const words = ["create", "--name", "Jo", "--plan", "free", "--json", "--persist-to", state];
    const { key } = JSON.parse((await npmRun("keys", words)).stdout);
    for (const colorScheme of ["light", "dark"] as const) {
      const take = (name: string) =>
        page.screenshot({ path: join(folder, `${name}-desktop-${colorScheme}.png`), animations: "disabled" });
      const page = await browser.newPage({ colorScheme, viewport: { width: 1280, height: 1400 } });
      await page.route("**/v1/usage", inventPastDays);
      await openReference(page, origin, key);
      await take("reference");
      await use(origin, key);
      // The page finds the key in the tab's storage.
      await page.goto(`${origin}/usage`);
      await page.getByRole("meter").first().waitFor();
      await page.setViewportSize({ width: 1280, height: 960 });
      await take("usage");
      await page.close();
    }
  } finally {
    await browser.close();
    await service.stop();
    await remove();
  }
}

async function inventPastDays(route: Route): Promise<void> {
  const response = await route.fetch();
  const usage = (await response.json()) as UsageBody;
  const days = usage.days.map((day, index) => ({ ...day, ...PAST_DAYS.at(-1 - index) }));
  await route.fulfill({ response, json: { ...usage, days } });
}

/** Sends some requests, so that the minute has a count. */
async function use(origin: string, key: string): Promise<void> {
  for (let request = 0; request < 13; request += 1) {
    await fetch(`${origin}/v1/pets`, { headers: { Authorization: `Bearer ${key}` } });
  }
}

/** Shows the response to a list request that was sent from the reference page. */
async function openReference(page: Page, origin: string, key: string): Promise<void> {
  await page.goto(origin);
  await page.getByLabel("Your API key").fill(key);
  const listPets = page.locator("#operations-Pets-listPets");
  await listPets.locator(".opblock-summary-control").click();
  await listPets.getByRole("button", { name: "Execute" }).click();
  await listPets.locator("pre.body").waitFor();
  const top = ((await listPets.boundingBox())?.y ?? 0) + (await page.evaluate<number>("scrollY"));
  await page.mouse.move(0, 0);
  await page.evaluate(`document.activeElement.blur(); scrollTo(0, ${top - 24})`);
}
