// The service with objects that count their calls and the rows that they write. GET /counts?key=ID returns these counts and the
// size of the object's storage; GET /calls the calls of all objects. GET /acquire?key=ID counts one request of a key like an
// isolate without a lease. GET /ban?key=ID bans a key by a report of refusals.

import { env } from "cloudflare:workers";
import worker, { RateLimiter as Uncounted } from "../../src/index.ts";
import { MAX_LIMIT } from "../../src/rate-limit/plans.ts";
import type { AcquireRequest } from "../../src/rate-limit/protocol.ts";

const LIMITS = { minute: MAX_LIMIT, day: MAX_LIMIT };

/** A ban needs more late refusals than three times the limit. */
const REFUSALS = 3 * MAX_LIMIT + 1;

/** Of an isolate without a lease. */
let lastNumber = 0;

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

  counts() {
    return { calls: this.#calls, rowsWritten: this.#rowsWritten, bytes: this.ctx.storage.sql.databaseSize };
  }
}

export default {
  async fetch(request, bindings, ctx) {
    const { pathname, searchParams } = new URL(request.url);
    const limiters = env.RATE_LIMITER as unknown as DurableObjectNamespace<RateLimiter>;
    const limiter = () => limiters.getByName(searchParams.get("key") ?? "");
    const acquire = async (requests: number, rest: Partial<AcquireRequest> = {}) => {
      lastNumber += 2;
      const batch = {
        client: "isolate",
        number: lastNumber,
        requests,
        arrivedMs: 0,
        recent: 0,
        wantsLease: false,
      };
      const call = { ...batch, decisions: [], bansLiftedUntilMs: 0, ...rest };
      return Response.json(await limiter().acquire(LIMITS, call));
    };
    if (pathname === "/counts") return Response.json(await limiter().counts());
    if (pathname === "/calls") return Response.json(allCalls);
    if (pathname === "/acquire") return acquire(1);
    if (pathname !== "/ban") return worker.fetch(request, bindings, ctx);
    const refusals = { atMs: Date.now(), arrivedMs: 0, admitted: 0, refused: REFUSALS, late: REFUSALS };
    return acquire(0, { decisions: [{ number: lastNumber + 1, ...refusals }] });
  },
} satisfies ExportedHandler<Env>;
