// The minimum for a Worker with Hono: a constant text, a read from D1, and a stored pet, all without authentication, counting or validation.

import { Hono } from "hono";

const INSERT = `
  INSERT INTO pets (name, category_id, status) VALUES (?1, ?2, ?3)
  RETURNING id, name, category_id AS categoryId, status`;

export default new Hono<{ Bindings: { DB: D1Database } }>()
  .get("/", (c) => c.text("ok"))
  .get("/one", async (c) => c.json(await c.env.DB.prepare("SELECT 1 AS one").first()))
  .post("/", async (c) => c.json(await c.env.DB.prepare(INSERT).bind("Rex", 1, "available").first(), 201));
