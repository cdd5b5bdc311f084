// The service with objects that count their calls and the rows that they write. GET /counts?key=ID returns these counts and the
// size of the object's storage; GET /calls the calls of all objects. GET /acquire?key=ID counts one request of a key like an
// isolate without a lease. GET /ban?key=ID bans a key by a report of refusals.

import { withEnv } from "cloudflare:workers";
import worker, { ApiKey as Uncounted } from "../../src/index.ts";
import { MAX_LIMIT } from "../../src/keys/plans.ts";
import type { AcquireRequest } from "../../src/keys/protocol.ts";
import { interceptCalls } from "../measure/object-calls.ts";

/** A ban needs more late refusals than three times the limit. */
const REFUSALS = 3 * MAX_LIMIT + 1;

/** Of an isolate without a lease. */
let lastNumber = 0;

/** By the name of the object, and of all objects by "". */
const calls = new Map([["", 0]]);

export class ApiKey extends Uncounted {
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

  counts() {
    return { rowsWritten: this.#rowsWritten, bytes: this.ctx.storage.sql.databaseSize };
  }
}

let counting: Env | undefined;

/** The bindings, with objects that count their calls. */
function countCalls({ API_KEYS, ...rest }: Env): Env {
  const counted = interceptCalls(API_KEYS as unknown as DurableObjectNamespace, ({ name = "" }, call) => {
    for (const each of ["", name]) calls.set(each, (calls.get(each) ?? 0) + 1);
    return call();
  });
  return { ...rest, API_KEYS: counted as unknown as Env["API_KEYS"] };
}

export default {
  async fetch(request, bindings, ctx) {
    counting ??= countCalls(bindings);
    const { API_KEYS } = counting;
    const { pathname, searchParams } = new URL(request.url);
    const key = searchParams.get("key") ?? "";
    const acquire = async (requests: number, rest: Partial<AcquireRequest> = {}) => {
      lastNumber += 2;
      const batch = { client: "isolate", number: lastNumber, requests, arrivedMs: 0, waitedMs: 0, recent: 0 };
      const call = { ...batch, wantsLease: false, decisions: [], ...rest };
      return Response.json(await API_KEYS.getByName(key).acquire(call));
    };
    if (pathname === "/calls") return Response.json(calls.get(""));
    if (pathname === "/counts") {
      const objects = bindings.API_KEYS as unknown as DurableObjectNamespace<ApiKey>;
      return Response.json({ calls: calls.get(key) ?? 0, ...(await objects.getByName(key).counts()) });
    }
    if (pathname === "/acquire") return acquire(1);
    const env = counting;
    if (pathname !== "/ban") return withEnv(env, () => worker.fetch(request, env, ctx)) as Promise<Response>;
    const refusals = { atMs: Date.now(), arrivedMs: 0, admitted: 0, refused: REFUSALS, late: REFUSALS };
    return acquire(0, { decisions: [{ number: lastNumber + 1, ...refusals }] });
  },
} satisfies ExportedHandler<Env>;
