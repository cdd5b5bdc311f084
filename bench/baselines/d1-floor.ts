// The minimum for a request that reads from D1.

import { Hono } from "hono";

export default new Hono<{ Bindings: { DB: D1Database } }>().get("/", async (c) =>
  c.json(await c.env.DB.prepare("SELECT 1 AS one").first()),
);
