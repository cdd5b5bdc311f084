// The baseline: the same service, built as the documentation of Hono, D1 and a published rate limiter suggests. It looks the key
// up in D1 by its hash, counts it with two limiters in Durable Objects, and then reads the pets from D1.

import { createRoute, OpenAPIHono, z } from "@hono/zod-openapi";
import { DurableObjectRateLimiter, DurableObjectStore } from "@hono-rate-limiter/cloudflare";
import type { MiddlewareHandler } from "hono";
import { bearerAuth } from "hono/bearer-auth";
import { rateLimiter } from "hono-rate-limiter";

export { DurableObjectRateLimiter };

interface Key {
  id: string;
  per_minute: number;
  per_day: number;
}

export interface BaselineEnv {
  Bindings: { DB: D1Database; CACHE: DurableObjectNamespace<DurableObjectRateLimiter> };
  Variables: { key: Key };
}

const NewPet = z.object({
  name: z.string().min(1).max(255),
  categoryId: z.number().int(),
  status: z.enum(["available", "pending", "sold"]).optional(),
});
const Pet = NewPet.extend({ id: z.number().int() }).openapi("Pet");

const listPets = createRoute({
  method: "get",
  path: "/v1/pets",
  request: {
    query: z.object({
      limit: z.coerce.number().int().min(1).max(100).default(20),
      after: z.coerce.number().int().default(0),
    }),
  },
  responses: {
    200: { description: "A page of pets", content: { "application/json": { schema: z.array(Pet) } } },
  },
});

const createPet = createRoute({
  method: "post",
  path: "/v1/pets",
  request: { body: { required: true, content: { "application/json": { schema: NewPet } } } },
  responses: { 201: { description: "The new pet", content: { "application/json": { schema: Pet } } } },
});

const app = new OpenAPIHono<BaselineEnv>();

app.use(
  "/v1/*",
  bearerAuth<BaselineEnv>({
    verifyToken: async (token, c) => {
      const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(token));
      const key = await c.env.DB.prepare(
        "SELECT id, limits ->> 'minute' AS per_minute, limits ->> 'day' AS per_day FROM keys WHERE hash = ?1",
      )
        .bind(digest)
        .first<Key>();
      if (key === null) return false;
      c.set("key", key);
      return true;
    },
  }),
  limit("minute", 60_000, (key) => key.per_minute),
  limit("day", 24 * 60 * 60_000, (key) => key.per_day),
);

app.openapi(listPets, async (c) => {
  const { limit, after } = c.req.valid("query");
  const { results } = await c.env.DB.prepare(
    "SELECT id, name, category_id AS categoryId, status FROM pets WHERE id > ?1 ORDER BY id LIMIT ?2",
  )
    .bind(after, limit)
    .all<z.infer<typeof Pet>>();
  return c.json(results, 200);
});

app.openapi(createPet, async (c) => {
  const { name, categoryId, status } = c.req.valid("json");
  const row = await c.env.DB.prepare(
    "INSERT INTO pets (name, category_id, status) VALUES (?1, ?2, ?3) RETURNING id",
  )
    .bind(name, categoryId, status ?? null)
    .first<{ id: number }>();
  if (row === null) throw new Error("the INSERT returned no row");
  return c.json({ id: row.id, name, categoryId, ...(status && { status }) }, 201);
});

export default app;

/** A limiter for one window. It is created for each request, because its store needs the bindings of the request. */
function limit(
  window: string,
  windowMs: number,
  limitOf: (key: Key) => number,
): MiddlewareHandler<BaselineEnv> {
  return (c, next) =>
    rateLimiter<BaselineEnv>({
      windowMs,
      limit: limitOf(c.var.key),
      keyGenerator: (context) => `${window}:${context.var.key.id}`,
      store: new DurableObjectStore({ namespace: c.env.CACHE }),
    })(c, next);
}
