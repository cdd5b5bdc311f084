// The list of pets as one process on one machine: keys and pets in SQLite, counters in memory. It sends the headers of the service:
// a request ID, a link to the next page, both families of rate-limit headers for both windows, and those of CORS, which expose the
// headers EXPOSED. The process exits with its parent.
//
//   node fastify.ts DATABASE EXPOSED

import { createHash, randomUUID } from "node:crypto";
import { DatabaseSync } from "node:sqlite";
import cors from "@fastify/cors";
import rateLimit from "@fastify/rate-limit";
import Fastify, { type FastifyReply } from "fastify";

interface Key {
  id: string;
  per_minute: number;
  per_day: number;
}

const [, , file = "", exposedHeaders = ""] = process.argv;

const database = new DatabaseSync(file);
database.exec("PRAGMA journal_mode = WAL");
const selectKey = database.prepare(
  "SELECT id, limits ->> 'minute' AS per_minute, limits ->> 'day' AS per_day FROM keys WHERE hash = ?",
);
const selectPage = database.prepare(
  "SELECT id, name, category_id AS categoryId, status FROM pets WHERE id > ? ORDER BY id LIMIT ?",
);

const PET = {
  type: "object",
  properties: {
    id: { type: "integer" },
    name: { type: "string" },
    categoryId: { type: "integer" },
    status: { type: "string", nullable: true },
  },
};
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

const app = Fastify({ logger: false, requestIdHeader: "x-request-id", genReqId: () => randomUUID() });

app.addHook("onRequest", (request, reply, done) => {
  reply.header("X-Request-Id", request.id);
  done();
});
await app.register(cors, { exposedHeaders });

app.addHook("onRequest", async (request, reply) => {
  const secret = request.headers.authorization?.replace(/^Bearer /, "") ?? "";
  const key = selectKey.get(createHash("sha256").update(secret).digest()) as Key | undefined;
  if (key === undefined) return reply.code(401).send({ error: "no valid key" });
  keys.set(request, key);
});

await app.register(rateLimit, { global: false });
const limiter = (timeWindow: string, max: (key: Key) => number) =>
  app.createRateLimit({
    timeWindow,
    max: (request) => max(keyOf(request)),
    keyGenerator: (request) => keyOf(request).id,
  });
const countMinute = limiter("1 minute", (key) => key.per_minute);
const countDay = limiter("1 day", (key) => key.per_day);
app.addHook("onRequest", async (request, reply) => {
  const inMinute = statusOf(await countMinute(request));
  const inDay = statusOf(await countDay(request));
  sendRateLimit(reply, inMinute, inDay);
  if (inMinute.isExceeded || inDay.isExceeded) return reply.code(429).send({ error: "too many requests" });
});

app.get<{ Querystring: { limit: number; after: number } }>(
  "/v1/pets",
  { schema: { querystring: PAGE_QUERY, response: { 200: { type: "array", items: PET } } } },
  async ({ query: { after, limit } }, reply) => {
    const pets = selectPage.all(after, limit);
    if (pets.length === limit)
      reply.header("Link", `</v1/pets?limit=${limit}&after=${pets.at(-1)?.id}>; rel="next"`);
    return pets;
  },
);

interface Status {
  max: number;
  remaining: number;
  ttl: number;
  ttlInSeconds: number;
  isExceeded: boolean;
}

/** No caller is exempt here. */
function statusOf(status: { isAllowed: true } | ({ isAllowed: false } & Status)): Status {
  if (status.isAllowed) throw new Error("a request was not counted");
  return status;
}

/** X-RateLimit-* of the tighter window, with its reset as Unix time, and RateLimit and RateLimit-Policy of both. */
function sendRateLimit(reply: FastifyReply, inMinute: Status, inDay: Status): void {
  const tighter = inMinute.remaining < inDay.remaining ? inMinute : inDay;
  reply.headers({
    "X-RateLimit-Limit": tighter.max,
    "X-RateLimit-Remaining": tighter.remaining,
    "X-RateLimit-Reset": Math.ceil((Date.now() + tighter.ttl) / 1000),
    RateLimit: `"minute";r=${inMinute.remaining};t=${inMinute.ttlInSeconds}, "day";r=${inDay.remaining};t=${inDay.ttlInSeconds}`,
    "RateLimit-Policy": `"minute";q=${inMinute.max};w=60, "day";q=${inDay.max};w=86400`,
  });
}

process.on("disconnect", () => process.exit());
process.send?.(await app.listen({ host: "127.0.0.1", port: 0 }));
