// The service, with objects that count how often they are called and what they write. GET /counts?key=ID says it, and how
// many bytes the object stores; GET /take?key=ID counts one request of a key as an isolate does that holds no lease.

import { env } from "cloudflare:workers";
import worker, { RateLimiter as Uncounted } from "../../src/index.ts";
import { MAX_LIMIT } from "../../src/keys/plans.ts";

export class RateLimiter extends Uncounted {
  #calls = 0;
  #rowsWritten = 0;

  constructor(ctx: DurableObjectState, bindings: Env) {
    super(ctx, bindings);
    const { sql } = ctx.storage;
    const exec = sql.exec.bind(sql);
    sql.exec = (query, ...values) => {
      const cursor = exec(query, ...values);
      this.#rowsWritten += cursor.rowsWritten;
      return cursor as never;
    };
  }

  override take(...words: Parameters<Uncounted["take"]>) {
    this.#calls += 1;
    return super.take(...words);
  }

  counts() {
    return { calls: this.#calls, rowsWritten: this.#rowsWritten, bytes: this.ctx.storage.sql.databaseSize };
  }
}

export default {
  async fetch(request, bindings, ctx) {
    const { pathname, searchParams } = new URL(request.url);
    const limiters = env.RATE_LIMITER as unknown as DurableObjectNamespace<RateLimiter>;
    const limiter = () => limiters.getByName(searchParams.get("key") ?? "");
    if (pathname === "/counts") return Response.json(await limiter().counts());
    if (pathname !== "/take") return worker.fetch(request, bindings, ctx);
    const id = crypto.randomUUID().replaceAll("-", "").slice(0, 10);
    const limits = { minute: MAX_LIMIT, day: MAX_LIMIT };
    return Response.json(await limiter().take(limits, { id, unreported: [], bannedUntilMs: 0 }));
  },
} satisfies ExportedHandler<Env>;
