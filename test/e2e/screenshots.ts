// npm run screenshots [-- FOLDER]: takes the pictures of the pages and of the dashboard that the documents show, from the real service, by
// default into docs/. The usage is invented. It needs Chromium: CHROMIUM can name one.

import { join } from "node:path";
import { openDatabases } from "../../scripts/cloudflare/database.ts";
import { newApp } from "../../scripts/dashboard/app.ts";
import { Readings } from "../../scripts/dashboard/readings.ts";
import { serve } from "../../scripts/dashboard/server.ts";
import { PLAN_LIMITS } from "../../src/keys/plans.ts";
import { EXAMPLE_USAGE } from "../../src/openapi/examples.ts";
import { createKey } from "../../src/operators/admin.ts";
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

/** Customers, and how much of their limits they use. */
const CUSTOMERS = [
  ["Rex & Co", "free", 1.1],
  ["Jo's shop", "pro", 0.6],
  ["Goldie Ltd", "business", 0.85],
  ["Mimi & Zoë", "pro", 1.02],
  ["Kit und Söhne", "free", 0.2],
] as const;

/** Invents customers with 30 days of usage. */
async function addCustomers(state: string): Promise<void> {
  const { keys, close } = await openDatabases({ kind: "local", state }, "keys");
  const insert = keys.prepare("INSERT INTO key_usage VALUES (?1, ?2, 'a', 1, ?3, ?4, ?5, ?6, NULL, 0)");
  for (const [index, [name, plan, most]] of CUSTOMERS.entries()) {
    const newKey = { name, plan, expiresAtMs: null, ref: `cus_${4711 + index}` };
    const { key } = await createKey(keys, newKey, { by: "maria", nowMs: Date.now() });
    for (let daysAgo = 0; daysAgo < 30; daysAgo += 1) {
      const ms = Date.now() - daysAgo * 86_400_000;
      const { minute, day } = PLAN_LIMITS[plan];
      const sent = Math.round(day * most * (0.6 + 0.4 * Math.sin(daysAgo + index) ** 2));
      const busiest = Math.round(minute * most * (0.7 + 0.3 * Math.cos(daysAgo) ** 2));
      const refused = { minute: Math.max(0, busiest - minute), day: Math.max(0, sent - day) };
      const counts = [Math.min(day, sent), JSON.stringify(refused), JSON.stringify({ minute: busiest })];
      await insert.bind(new Date(ms).toISOString().slice(0, 10), key.id, ...counts, ms).run();
    }
  }
  await close();
}

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
  await addCustomers(state);
  const readings = new Readings({ kind: "local", state }, service.origin);
  const dashboard = await serve(newApp(readings, "token"), 0);
  for (const [width, colorScheme] of [
    [1280, "light"],
    [320, "dark"],
  ] as const) {
    const page = await browser.newPage({ colorScheme, viewport: { width, height: 1000 } });
    await page.goto(`${dashboard.origin}/token/`);
    // Not where the pictures were taken.
    await page.evaluate("document.querySelector('.top span').textContent = 'the production databases'");
    await page.screenshot({ path: join(folder, `dashboard-${width}-${colorScheme}.png`) });
    await page.close();
  }
  await dashboard.close();
  await readings.close();
} finally {
  await browser.close();
  await service.stop();
  await remove();
}
