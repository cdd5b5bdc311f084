// The pages of the dashboard. Each path begins with the token, and none changes anything.

import { readFile } from "node:fs/promises";
import { type Context, Hono } from "hono";
import { secureHeaders } from "hono/secure-headers";
import { messageOf } from "../lib/io.ts";
import { keyPage } from "./key-page.ts";
import { keysCsv, keysPage } from "./keys-page.ts";
import { layout, missing, type Page } from "./layout.ts";
import type { Readings } from "./readings.ts";
import { servicePage } from "./service-page.ts";

/** The styles of the service's pages, then the dashboard's own. */
const STYLES = ["src/site/style.css", "src/site/usage/chart.css", "scripts/dashboard/dashboard.css"];

/** No script, no frame, nothing from elsewhere. */
const POLICY = {
  defaultSrc: ["'none'"],
  styleSrc: ["'self'"],
  formAction: ["'self'"],
  frameAncestors: ["'none'"],
  baseUri: ["'none'"],
};

/** `token` is the first part of each path. */
export function newApp(readings: Readings, token: string) {
  const base = `/${token}`;
  const app = new Hono({ strict: false }).basePath(base);
  const urlOf = (c: Context) => new URL(c.req.url);
  const show = (c: Context, page: Page, status: 200 | 500 = 200) => {
    const { pathname, search } = urlOf(c);
    return c.html(layout(page, readings.target, base, pathname + search), status);
  };

  app.use(secureHeaders({ contentSecurityPolicy: POLICY, strictTransportSecurity: false }));
  app.get("/style.css", async (c) => {
    const styles = await Promise.all(STYLES.map((path) => readFile(path, "utf8")));
    return c.body(styles.join("\n"), 200, { "Content-Type": "text/css; charset=utf-8" });
  });
  app.use(async (c, next) => {
    const { pathname, searchParams } = urlOf(c);
    // Another user of this machine may use the browser later.
    c.header("Cache-Control", "no-store");
    // As browsers say it when somebody reloads a page (RFC 9111, section 5.2.1).
    if (/no-cache|max-age=0/.test(c.req.header("Cache-Control") ?? "")) readings.forget();
    if (searchParams.get("read") !== "again") return next();
    readings.forget();
    searchParams.delete("read");
    return c.redirect(`${pathname}?${searchParams}`, 303);
  });
  app.get("/", async (c) => show(c, await keysPage(readings, urlOf(c).searchParams, base)));
  app.get("/keys.csv", async (c) => {
    const csv = await keysCsv(readings, urlOf(c).searchParams);
    c.header("Content-Type", "text/csv; charset=utf-8");
    c.header("Content-Disposition", 'attachment; filename="petstore-keys.csv"');
    return c.body(csv);
  });
  app.get("/keys/:id{key_[0-9A-Za-z]{12}}", async (c) => show(c, await keyPage(readings, c.req.param("id"))));
  app.get("/service", async (c) => show(c, await servicePage(readings, urlOf(c).searchParams)));
  app.onError((error, c) => {
    const content = missing("This page", messageOf(error));
    return show(c, { title: "Failure", readings: [], commands: [], content }, 500);
  });
  return app;
}
