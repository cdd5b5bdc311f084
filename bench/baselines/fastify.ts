// The same service as one process on one machine: keys and pets in SQLite, counters in memory. A write is on disk before the
// response. The process exits with its parent.
//
//   node fastify.ts DATABASE

import { createHash } from "node:crypto";
import { DatabaseSync } from "node:sqlite";
import rateLimit from "@fastify/rate-limit";
import Fastify from "fastify";

interface Key {
  id: string;
  per_minute: number;
  per_day: number;
}

const database = new DatabaseSync(process.argv[2] ?? "");
database.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL");
const selectKey = database.prepare("SELECT id, per_minute, per_day FROM keys WHERE hash = ?");
const selectPage = database.prepare(
  "SELECT id, name, category_id AS categoryId, status FROM pets WHERE id > ? ORDER BY id LIMIT ?",
);
const insertPet = database.prepare(
  "INSERT INTO pets (name, category_id, status) VALUES (?, ?, ?) RETURNING id, name, category_id AS categoryId, status",
);

const STATUS = { type: "string", enum: ["available", "pending", "sold"], nullable: true };
const PET_FIELDS = {
  name: { type: "string", minLength: 1, maxLength: 255 },
  categoryId: { type: "integer" },
  status: STATUS,
};
const NEW_PET = { type: "object", required: ["name", "categoryId"], properties: PET_FIELDS };
const PET = { type: "object", properties: { id: { type: "integer" }, ...PET_FIELDS } };
const PAGE_QUERY = {
  type: "object",
  properties: {
    limit: { type: "integer", minimum: 1, maximum: 100, default: 20 },
    after: { type: "integer", default: 0 },
  },
};

const keys = new WeakMap<object, Key>();
const keyOf = (request: object): Key => {
  const key = keys.get(request);
  if (key === undefined) throw new Error("a request has no key");
  return key;
};

const app = Fastify({ logger: false });

app.addHook("onRequest", async (request, reply) => {
  const secret = request.headers.authorization?.replace(/^Bearer /, "") ?? "";
  const key = selectKey.get(createHash("sha256").update(secret).digest()) as Key | undefined;
  if (key === undefined) return reply.code(401).send({ error: "no valid key" });
  keys.set(request, key);
});
await app.register(rateLimit, {
  timeWindow: "1 minute",
  max: (request) => keyOf(request).per_minute,
  keyGenerator: (request) => keyOf(request).id,
});
await app.register(rateLimit, {
  timeWindow: "1 day",
  max: (request) => keyOf(request).per_day,
  keyGenerator: (request) => keyOf(request).id,
});

app.get<{ Querystring: { limit: number; after: number } }>(
  "/v1/pets",
  { schema: { querystring: PAGE_QUERY, response: { 200: { type: "array", items: PET } } } },
  async ({ query }) => selectPage.all(query.after, query.limit),
);

app.post<{ Body: { name: string; categoryId: number; status?: string } }>(
  "/v1/pets",
  { schema: { body: NEW_PET, response: { 201: PET } } },
  async ({ body }, reply) =>
    reply.code(201).send(insertPet.get(body.name, body.categoryId, body.status ?? null)),
);

process.on("disconnect", () => process.exit());
process.send?.(await app.listen({ host: "127.0.0.1", port: 0 }));
