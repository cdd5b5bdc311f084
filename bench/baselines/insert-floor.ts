// The minimum for storing a pet: without authentication, counting or validation.

import { Hono } from "hono";

const INSERT = `
  INSERT INTO pets (name, category_id, status) VALUES (?1, ?2, ?3)
  RETURNING id, name, category_id AS categoryId, status`;

export default new Hono<{ Bindings: { DB: D1Database } }>().post("/", async (c) =>
  c.json(await c.env.DB.prepare(INSERT).bind("Rex", 1, "available").first(), 201),
);
