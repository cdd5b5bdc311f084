// npm run screenshots [-- FOLDER]: takes the pictures of both pages that the documents show, from the real service, by default into
// docs/. The usage is invented. It needs Chromium: CHROMIUM can name one.

import { join } from "node:path";
import { EXAMPLE_USAGE } from "../../src/openapi/examples.ts";
import { answerUsage, consoleOf, openBrowser } from "../support/e2e/browser.ts";
import { emptyState, start } from "../support/e2e/petstore.ts";
import { refusedBy } from "../support/key-record.ts";

const [folder = "docs"] = process.argv.slice(2);

/** Busy on weekdays, and sometimes over a limit. */
const PAST_DAYS = EXAMPLE_USAGE.days.slice(0, -1).map(({ date }, index) => {
  const isQuiet = index % 7 === 1 || index % 7 === 2;
  const sent = Math.round((isQuiet ? 150 : 700) + 400 * Math.sin(index) ** 2);
  const minute = index % 5 === 0 ? 120 : 0;
  const refusals = {
    refusedBy: refusedBy({ minute, day: Math.max(0, sent - 1000) }),
    busiest: { minute: 40 + minute },
  };
  return { date, admitted: Math.min(1000, sent), ...refusals };
});

const browser = await openBrowser();
const { state, remove } = await emptyState();
const service = await start(state);
const [key = ""] = service.printed().match(/pet_\w{50}/) ?? [];
try {
  for (const colorScheme of ["light", "dark"] as const) {
    const take = (name: string) =>
      page.screenshot({ path: join(folder, `${name}-desktop-${colorScheme}.png`), animations: "disabled" });
    const page = await browser.newPage({ colorScheme, viewport: { width: 1280, height: 1400 } });
    await page.goto(service.origin);
    const { form, field, send, body } = consoleOf(page, "listPets");
    await field("key").fill(key);
    await field("limit").fill("2");
    await form.getByText("TypeScript", { exact: true }).click();
    await send.click();
    await body.waitFor();
    await page.mouse.move(0, 0);
    await page.evaluate(`
      document.activeElement.blur();
      document.getElementById("/Pets/listPets").scrollIntoView({ behavior: "instant" })`);
    await page.locator(".contents [aria-current]").getByText("List pets").waitFor();
    await take("reference");

    await answerUsage(page, { ...EXAMPLE_USAGE, days: [...PAST_DAYS, ...EXAMPLE_USAGE.days.slice(-1)] });
    // The page finds the key in the tab's storage.
    await page.goto(`${service.origin}/usage`);
    await page.getByRole("meter").first().waitFor();
    await page.setViewportSize({ width: 1280, height: 1360 });
    await take("usage");
    await page.close();
  }
} finally {
  await browser.close();
  await service.stop();
  await remove();
}
