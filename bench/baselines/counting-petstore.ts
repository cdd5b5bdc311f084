// The service with objects that count their calls and the rows that they write. GET /counts?key=ID returns these counts and the
// size of the object's storage; GET /calls the calls of all objects. GET /acquire?key=ID counts one request of a key like an
// isolate without a lease. GET /ban?key=ID bans a key as if an isolate had decided it.

import { env } from "cloudflare:workers";
import worker, { RateLimiter as Uncounted } from "../../src/index.ts";
import { randomBase62 } from "../../src/lib/base62.ts";
import { BAN_MS } from "../../src/rate-limit/object/quota.ts";
import { MAX_LIMIT } from "../../src/rate-limit/plans.ts";
import { BATCH_ID_LENGTH } from "../../src/rate-limit/protocol.ts";

const LIMITS = { minute: MAX_LIMIT, day: MAX_LIMIT };

const NOTHING = { released: [], outbox: [], bannedUntilMs: 0, bansLiftedUntilMs: 0 };
const ban = () => ({ ...NOTHING, bannedUntilMs: Date.now() + BAN_MS });

/** Of all objects: here they run in the Worker's own isolate. */
let allCalls = 0;

export class RateLimiter extends Uncounted {
  #calls = 0;
  #rowsWritten = 0;

  constructor(ctx: DurableObjectState, bindings: Env) {
    super(ctx, bindings);
    // Each put writes a row. The daily alarm is not counted.
    const { kv } = ctx.storage;
    const put = kv.put.bind(kv);
    kv.put = (key, value) => {
      this.#rowsWritten += 1;
      put(key, value);
    };
  }

  override acquire(...words: Parameters<Uncounted["acquire"]>) {
    this.#calls += 1;
    allCalls += 1;
    return super.acquire(...words);
  }

  override release(...words: Parameters<Uncounted["release"]>) {
    this.#calls += 1;
    allCalls += 1;
    return super.release(...words);
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
    if (pathname === "/calls") return Response.json(allCalls);
    if (pathname === "/ban") return Response.json(await limiter().release(LIMITS, ban()));
    if (pathname !== "/acquire") return worker.fetch(request, bindings, ctx);
    const id = randomBase62(BATCH_ID_LENGTH);
    const batch = { id, requests: 1, waitedMs: 0, ...NOTHING };
    return Response.json(await limiter().acquire(LIMITS, batch));
  },
} satisfies ExportedHandler<Env>;
