// Asks a running service how a key stands. It prints nothing, names a key by its last four characters only, and believes no
// answer that has not the form of one: whatever is at a mistyped address may answer.

import * as z from "zod/mini";
import { PLAN_LIMITS, type Plan } from "../../src/rate-limit/plans.ts";
import type { UsageBody } from "../../src/rate-limit/usage/usage-body.ts";

/** An answer that takes longer is none. */
const PATIENCE_MS = 10_000;

const PLANS = Object.keys(PLAN_LIMITS) as Plan[];
const DATE = /^\d{4}-\d\d-\d\d$/;

const count = () => z.int().check(z.gte(0));
const window = () => z.object({ limit: count(), used: count(), remaining: count(), reset: count() });

/** The body as UsageBody has it. What a later version adds is left out. */
const Usage = z.object({
  plan: z.enum(PLANS),
  minute: window(),
  day: window(),
  bannedUntil: z.nullable(count()),
  days: z.array(z.object({ date: z.string().check(z.regex(DATE)), admitted: count(), refused: count() })),
}) satisfies z.ZodMiniType<UsageBody>;

/** How a key stands; `nowMs` is what the clock of the service says. */
export interface KeyUsage {
  lastFour: string;
  usage: UsageBody;
  nowMs: number;
}

/** Asks GET /v1/usage. Throws an error whose message is for people if there is no such answer. */
export async function askUsage(url: URL, key: string): Promise<KeyUsage> {
  const lastFour = key.slice(-4);
  const response = await fetch(new URL("/v1/usage", url), {
    headers: { Authorization: `Bearer ${key}` },
    // The key is for this address, not for another that it leads to.
    redirect: "manual",
    signal: AbortSignal.timeout(PATIENCE_MS),
  }).catch((error: Error) => {
    throw new Error(`${url.origin} can't be reached (${reasonOf(error)}): is the service there? See --url`);
  });
  const body: unknown = await response.json().catch(() => undefined);
  const { success, data } = Usage.safeParse(body);
  if (success) {
    const dateMs = Date.parse(response.headers.get("Date") ?? "");
    return { lastFour, usage: data, nowMs: Number.isNaN(dateMs) ? Date.now() : dateMs };
  }
  const { message } = (body ?? {}) as { message?: unknown };
  if (response.ok || typeof message !== "string") {
    throw new Error(`${url.origin} is not the petstore: it answered ${response.status}, with something else`);
  }
  throw new Error(`the service answered ${response.status} to the key that ends in ${lastFour}: ${message}`);
}

/** `ECONNREFUSED`, or what else can be said in a few words. */
function reasonOf(error: Error): string {
  if (error.name === "TimeoutError") return `no answer in ${PATIENCE_MS / 1000} s`;
  const { code, message } = (error.cause ?? error) as { code?: string; message: string };
  return code ?? message;
}
