// How tests break a Durable Object.

import { runInDurableObject } from "cloudflare:test";
import type { RateLimiter } from "../src/index.ts";

/** The test pool keeps errors that begin like this out of its output: it makes such objects end itself. */
const REASON = "Instance disposed";

/**
 * Ends an object at once: what it has in memory is gone, and so is what is in flight. The stub is of no more use, another
 * one for the same object is.
 */
export async function crash(limiter: DurableObjectStub<RateLimiter>): Promise<void> {
  await runInDurableObject(limiter, (_, ctx) => ctx.abort(REASON)).catch(() => {});
}
