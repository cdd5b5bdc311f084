// Fetches the usage of a key from a running service. It identifies a key by its last four characters, and validates the
// response, because a mistyped URL may lead to another server.

import * as z from "zod/mini";
import { PLAN_LIMITS, type Plan } from "../../src/rate-limit/plans.ts";
import type { UsageBody } from "../../src/rate-limit/usage/usage-body.ts";

const TIMEOUT_MS = 10_000;

const PLANS = Object.keys(PLAN_LIMITS) as Plan[];
const DATE = /^\d{4}-\d\d-\d\d$/;

const count = () => z.int().check(z.gte(0));
const window = () => z.object({ limit: count(), used: count(), remaining: count(), reset: count() });

/** Drops the fields that a later version may add. */
const Usage = z.object({
  plan: z.enum(PLANS),
  minute: window(),
  day: window(),
  bannedUntil: z.nullable(count()),
  days: z.array(z.object({ date: z.string().check(z.regex(DATE)), admitted: count(), refused: count() })),
}) satisfies z.ZodMiniType<UsageBody>;

/** Calls GET /v1/usage. Throws an error whose message is for people. `nowMs` is the clock of the service, as Unix time. */
export async function fetchUsage(url: URL, key: string) {
  const lastFour = key.slice(-4);
  const response = await fetch(new URL("/v1/usage", url), {
    headers: { Authorization: `Bearer ${key}` },
    // Don't send the key to another origin.
    redirect: "manual",
    signal: AbortSignal.timeout(TIMEOUT_MS),
  }).catch(({ name, message, cause }: Error) => {
    const { code = message } = (cause ?? {}) as { code?: string };
    const reason = name === "TimeoutError" ? `no response within ${TIMEOUT_MS / 1000} s` : code;
    throw new Error(`can't reach ${url.origin} (${reason}): check --url`);
  });
  const body: unknown = await response.json().catch(() => undefined);
  const { success, data } = Usage.safeParse(body);
  if (success) {
    const nowMs = Date.parse(response.headers.get("Date") ?? "") || Date.now();
    return { lastFour, usage: data, nowMs };
  }
  const { message } = (body ?? {}) as { message?: unknown };
  if (response.ok || typeof message !== "string")
    throw new Error(`${url.origin} is not the petstore: unexpected response with status ${response.status}`);
  throw new Error(`the service refused the key ending in ${lastFour} with ${response.status}: ${message}`);
}
