// Counts requests by key and UTC day from the log that Cloudflare keeps of the Worker, with the query API of Workers
// Observability:
// https://developers.cloudflare.com/api/resources/workers/subresources/observability/subresources/telemetry/methods/query/
// The documentation does not say how filters treat a missing field, so every filter requires a field: admitted requests are
// all counted requests minus all others. Each day is a query of its own.

import { type CallApi, CloudflareApiError, openAccount } from "../cloudflare/account.ts";
import { readConfig } from "../cloudflare/wrangler.ts";
import { dateOf, type LogUsage, type Outcome, Tally } from "./log.ts";

/** The retention of Workers Logs on the Workers Paid plan. */
export const MAX_DAYS_LOGGED = 7;

const DAY_MS = 86_400_000;

/** The API's maximum. */
const MAX_GROUPS = 2_000;

/** The API's error code for an invalid token or a missing permission. */
const NOT_ALLOWED = 10_000;

interface Filter {
  key: string;
  operation: "eq" | "exists";
  type: "string";
  value?: string;
}

/** The fields of a query's result that matter here. */
interface Result {
  calculations?: { aggregates: { value: number; groups?: { key: string; value: unknown }[] }[] }[];
  /** `abr_level` n: Cloudflare sampled one line in n. */
  statistics?: { abr_level?: number };
}

const exists = (key: string): Filter => ({ key, operation: "exists", type: "string" });
const equals = (key: string, value: string): Filter => ({ key, operation: "eq", type: "string", value });

/** Selects requests with a valid key that asked the limiter (see `outcomeOf`). */
const COUNTED = [exists("plan"), exists("window")];

/** Queries the account of wrangler's credentials about the Worker of wrangler.toml. */
export async function queryTelemetry(dayCount: number, nowMs: number): Promise<LogUsage> {
  const { name } = await readConfig();
  const callApi = await openAccount();
  try {
    return await countDays(callApi, name, dayCount, nowMs);
  } catch (error) {
    if (!(error instanceof CloudflareApiError && error.code === NOT_ALLOWED)) throw error;
    throw new Error(
      `${error.message}; CLOUDFLARE_API_TOKEN needs the permission Workers Observability, which wrangler login does not give`,
    );
  }
}

async function countDays(
  callApi: CallApi,
  worker: string,
  dayCount: number,
  nowMs: number,
): Promise<LogUsage> {
  const tally = new Tally();
  let isIncomplete = false;
  const todayMs = nowMs - (nowMs % DAY_MS);
  const daysMs = Array.from({ length: dayCount }, (_, index) => todayMs - (dayCount - 1 - index) * DAY_MS);
  for (const startMs of daysMs) {
    const timeframe = { from: startMs, to: Math.min(startMs + DAY_MS - 1, nowMs) };
    /** Adds the requests that match `filters` to `outcome`, and subtracts them from `admitted` if that is another. */
    const count = async (outcome: Outcome | undefined, ...filters: Filter[]) => {
      const allFilters = [equals("$metadata.service", worker), ...COUNTED, ...filters];
      const query = queryOf(allFilters, timeframe);
      const result = await callApi<Result>("/workers/observability/telemetry/query", query);
      const groups = groupsOf(result);
      isIncomplete ||= groups.length >= MAX_GROUPS || (result.statistics?.abr_level ?? 1) > 1;
      for (const { keyId, requests } of groups) {
        if (outcome !== undefined) tally.add(keyId, dateOf(startMs), outcome, requests);
        if (outcome !== "admitted") tally.add(keyId, dateOf(startMs), "admitted", -requests);
      }
    };
    await Promise.all([
      count("refused", equals("code", "rate_limit_exceeded")),
      count("banned", equals("code", "key_banned")),
      count(undefined, equals("route", "/v1/usage")),
    ]);
    // Last, so that a line that arrives late is never in a part but not in the total.
    await count("admitted");
  }
  return { keys: tally.keys(daysMs.map(dateOf)), isIncomplete };
}

/** The body of a query that counts requests by key. */
function queryOf(filters: Filter[], timeframe: { from: number; to: number }) {
  return {
    queryId: "petstore-usage",
    view: "calculations",
    // Don't save the query.
    dry: true,
    ignoreSeries: true,
    timeframe,
    limit: MAX_GROUPS,
    parameters: {
      filters,
      filterCombination: "and",
      calculations: [{ operator: "count", alias: "requests" }],
      groupBys: [{ type: "string", value: "keyId" }],
      orderBy: { value: "requests", order: "desc" },
      limit: MAX_GROUPS,
    },
  };
}

function groupsOf({ calculations }: Result): { keyId: string; requests: number }[] {
  const [calculation] = calculations ?? [];
  if (!Array.isArray(calculation?.aggregates)) {
    throw new Error("Cloudflare's API returned something other than a query result");
  }
  return calculation.aggregates.flatMap(({ groups, value }) => {
    const keyId = groups?.find(({ key }) => key === "keyId")?.value;
    return typeof keyId === "string" ? [{ keyId, requests: value }] : [];
  });
}
