// Counts requests by key and UTC day from the log that Cloudflare keeps of the Worker, with the query API of Workers
// Observability:
// https://developers.cloudflare.com/api/resources/workers/subresources/observability/subresources/telemetry/methods/query/
// The documentation does not say how filters treat a missing field, so every filter requires a field: admitted requests are
// all counted requests minus all others. Each day is a query of its own.

import { DAY_MS } from "../../src/keys/protocol.ts";
import { type CallApi, CloudflareApiError, openAccount } from "../cloudflare/account.ts";
import { readConfig } from "../cloudflare/wrangler.ts";

/** The retention of Workers Logs on the Workers Paid plan. */
export const MAX_DAYS_LOGGED = 7;

/** The API's maximum. */
const MAX_GROUPS = 2_000;

/** The API's error code for an invalid token or a missing permission. */
const NOT_ALLOWED = 10_000;

/**
 * Requests with a valid key on a UTC day (`2026-11-20`). Unlike GET /v1/usage, the log has requests during a ban, and calls the
 * request that starts one banned.
 */
export type LoggedDay = ReturnType<typeof noDays>[number];

/** The fields of a query's result that matter here. */
interface Result {
  calculations?: { aggregates: { value: number; groups: { value: string }[] }[] }[];
  /** `abr_level` n: Cloudflare sampled one line in n. */
  statistics?: { abr_level?: number };
}

const exists = (key: string) => ({ key, operation: "exists", type: "string" });
const equals = (key: string, value: string) => ({ key, operation: "eq", type: "string", value });
type Filter = ReturnType<typeof exists | typeof equals>;

/** Only requests with a valid key have a plan; only those that asked the limiter have a window. */
const COUNTED = [exists("plan"), exists("window")];

/** Counts the last days of one key, up to today. */
export async function queryKeyDays(keyId: string, dayCount: number, nowMs: number) {
  const { keys, isIncomplete } = await queryKeys(dayCount, nowMs, equals("keyId", keyId));
  return { days: keys[0]?.days ?? noDays(dayCount, nowMs), isIncomplete };
}

/**
 * Counts the last days of all keys that match `filters`, the busiest first, for the Worker of wrangler.toml in the account of
 * wrangler's credentials. `isIncomplete` if Cloudflare left out lines.
 */
export async function queryKeys(dayCount: number, nowMs: number, ...filters: Filter[]) {
  const { name } = await readConfig();
  const callApi = await openAccount();
  const keys = new Map<string, LoggedDay[]>();
  let isIncomplete = false;
  for (const [index, { date }] of noDays(dayCount, nowMs).entries()) {
    const startMs = Date.parse(date);
    const timeframe = { from: startMs, to: Math.min(startMs + DAY_MS - 1, nowMs) };
    /** The number of requests by key. */
    const count = async (...more: Filter[]) => {
      const all = [equals("$metadata.service", name), ...COUNTED, ...filters, ...more];
      const { calculations, statistics } = await runQuery(callApi, all, timeframe);
      const groups = calculations?.[0]?.aggregates;
      if (groups === undefined)
        throw new Error("Cloudflare's API returned something other than a query result");
      isIncomplete ||= groups.length >= MAX_GROUPS || (statistics?.abr_level ?? 1) > 1;
      return new Map(groups.map(({ groups: [keyId], value }) => [keyId?.value ?? "", value]));
    };
    const parts = await Promise.all([
      count(equals("code", "rate_limit_exceeded")),
      count(equals("code", "key_banned")),
      // It asks the limiter, but is free.
      count(equals("route", "/v1/usage")),
    ]);
    // Last, so that a line that arrives late is never in a part but not in the total.
    for (const [keyId, requests] of await count()) {
      const [refused = 0, banned = 0, free = 0] = parts.map((part) => part.get(keyId) ?? 0);
      if (requests === free) continue;
      const days = keys.get(keyId) ?? noDays(dayCount, nowMs);
      days[index] = { date, admitted: requests - refused - banned - free, refused, banned };
      keys.set(keyId, days);
    }
  }
  const sorted = [...keys].sort(([, a], [, b]) => totalOf(b) - totalOf(a));
  return { keys: sorted.map(([keyId, days]) => ({ keyId, days })), isIncomplete };
}

/** All requests on these days. */
export function totalOf(days: LoggedDay[]): number {
  return days.reduce((sum, { admitted, refused, banned }) => sum + admitted + refused + banned, 0);
}

/** The last days up to today, the oldest first. */
function noDays(dayCount: number, nowMs: number) {
  return Array.from({ length: dayCount }, (_, index) => {
    const date = new Date(nowMs - (dayCount - 1 - index) * DAY_MS).toISOString().slice(0, 10);
    return { date, admitted: 0, refused: 0, banned: 0 };
  });
}

/** Counts the log's lines that match all filters by key. */
async function runQuery(callApi: CallApi, filters: Filter[], timeframe: object): Promise<Result> {
  const parameters = {
    filters,
    filterCombination: "and",
    calculations: [{ operator: "count", alias: "requests" }],
    groupBys: [{ type: "string", value: "keyId" }],
    orderBy: { value: "requests", order: "desc" },
    limit: MAX_GROUPS,
  };
  // `dry`: don't save the query.
  const options = { queryId: "petstore-usage", view: "calculations", dry: true, ignoreSeries: true };
  const query = { ...options, timeframe, limit: MAX_GROUPS, parameters };
  return callApi<Result>("/workers/observability/telemetry/query", query).catch((error) => {
    if (!(error instanceof CloudflareApiError && error.code === NOT_ALLOWED)) throw error;
    const permission = "the permission Workers Observability, which wrangler login does not give";
    throw new Error(`${error.message}; CLOUDFLARE_API_TOKEN needs ${permission}`);
  });
}
