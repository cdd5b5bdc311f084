// Another API on the same limiter: books for readers, with windows, keys and answers of its own, and without a database.

import { DurableObject, env } from "cloudflare:workers";
import { Hono } from "hono";
import { RUNTIME } from "../../../src/lib/workers-runtime.ts";
import { type KeyPolicy, LimiterUnavailable, limitedObject, limits } from "../../../src/limits/index.ts";

/** A key: who it is for, its token, and how many requests each window admits. */
export interface Reader {
  name: string;
  token: string;
  limits: { burst: number; hour: number };
}

/** Where another service has a table. */
const READERS = new Map<string, Reader>([
  ["ada", { name: "Ada", token: "ada.x1", limits: { burst: 60, hour: 1_000 } }],
  ["bob", { name: "Bob", token: "bob.x2", limits: { burst: 300, hour: 300 } }],
]);

export const POLICY: KeyPolicy<Reader> = {
  windows: { burst: 10, hour: 3_600 },
  limitsOf: ({ limits }) => limits,
  problemOf: ({ token }, hash) => (token === hash ? undefined : "unknown"),
};

const load = async (id: string) => READERS.get(id) ?? null;

/** Counts the requests of a reader. */
export class ReaderKey extends limitedObject(DurableObject, () => ({
  policy: POLICY,
  runtime: RUNTIME,
  load,
})) {}

type Readers = { READERS: DurableObjectNamespace<ReaderKey> };

const limiter = limits<Reader>({
  ...{ policy: POLICY, runtime: RUNTIME, load },
  objectOf: (id) => (env as unknown as Readers).READERS.getByName(id),
  // Such as ada.x1. A service with secrets hands over their hashes.
  credentialOf: (token) => ({ id: token.split(".")[0] ?? "", hash: token }),
  refuse: (c) => c.json({ error: "too many requests" }, 429),
  reject: (c, problem) => c.json({ error: `${problem} key` }, 401, { "WWW-Authenticate": "Bearer" }),
  onObjectFailure: (_, error) => console.error(error),
});

export default new Hono()
  .use(limiter.headers, limiter.identify, limiter.admit)
  .get("/books", (c) => c.json([{ title: "Middlemarch", for: c.get("key").name }]))
  .onError((error, c) => {
    if (!(error instanceof LimiterUnavailable)) return c.json({ error: "something broke" }, 500);
    return c.json({ error: "try again" }, 503, { "Retry-After": "1" });
  });
