// Has Cloudflare count the log that it keeps of the deployed Worker, by key and UTC day, over the query API of Workers
// Observability:
// https://developers.cloudflare.com/api/resources/workers/subresources/observability/subresources/telemetry/methods/query/
// It only asks for lines that have something, never for lines that lack it, because what a missing field equals is not said
// there: so who was admitted is who was counted, less all others. A day is a query of its own, because its bounds are exact.

import { ApiRefusal, type Ask, openAccount } from "../cloudflare/account.ts";
import { readConfig } from "../cloudflare/wrangler.ts";
import { dateOf, type LogUsage, type Outcome, Tally } from "./log.ts";

/** How long Workers Logs keep a line, on the Workers Paid plan. */
export const MAX_DAYS_LOGGED = 7;

const DAY_MS = 86_400_000;

/** More groups than that can't be had. */
const MAX_GROUPS = 2_000;

/** The API's code for a token that lacks a permission, or is none. */
const NOT_ALLOWED = 10_000;

interface Filter {
  key: string;
  operation: "eq" | "exists";
  type: "string";
  value?: string;
}

/** Of the result of a query, what counts here. */
interface Result {
  calculations?: { aggregates: { value: number; groups?: { key: string; value: unknown }[] }[] }[];
  /** Present if Cloudflare has looked at a part of the lines only: at every so manyth. */
  statistics?: { abr_level?: number };
}

const exists = (key: string): Filter => ({ key, operation: "exists", type: "string" });
const equals = (key: string, value: string): Filter => ({ key, operation: "eq", type: "string", value });

/** The lines of requests for which the meter of a valid key was asked (see `outcomeOf`). */
const METERED = [exists("plan"), exists("window")];

/** The account and the Worker are those of wrangler.toml and of wrangler's credentials. */
export async function askCloudflare(dayCount: number, nowMs: number): Promise<LogUsage> {
  const { name } = await readConfig();
  const ask = await openAccount();
  try {
    return await countDays(ask, name, dayCount, nowMs);
  } catch (error) {
    if (!(error instanceof ApiRefusal && error.code === NOT_ALLOWED)) throw error;
    throw new Error(
      `${error.message}; CLOUDFLARE_API_TOKEN needs the permission Workers Observability, which wrangler login does not give`,
    );
  }
}

async function countDays(ask: Ask, worker: string, dayCount: number, nowMs: number): Promise<LogUsage> {
  const tally = new Tally();
  let isIncomplete = false;
  const todayMs = nowMs - (nowMs % DAY_MS);
  const daysMs = Array.from({ length: dayCount }, (_, index) => todayMs - (dayCount - 1 - index) * DAY_MS);
  for (const startMs of daysMs) {
    const timeframe = { from: startMs, to: Math.min(startMs + DAY_MS - 1, nowMs) };
    /** Adds what has all of `filters` to `outcome`, and takes it from what was admitted if it was not. */
    const count = async (outcome: Outcome | undefined, ...filters: Filter[]) => {
      const own = [equals("$metadata.service", worker), ...METERED, ...filters];
      const result = await ask<Result>("/workers/observability/telemetry/query", queryOf(own, timeframe));
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
    // Last, so that a line which arrives late is in no part without being in the whole.
    await count("admitted");
  }
  return { keys: tally.keys(daysMs.map(dateOf)), isIncomplete };
}

/** The body of a query that counts by key. */
function queryOf(filters: Filter[], timeframe: { from: number; to: number }) {
  return {
    queryId: "petstore-usage",
    view: "calculations",
    // Not to be found among the saved ones.
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
    throw new Error("Cloudflare's API has answered with something that is not the result of a query");
  }
  return calculation.aggregates.flatMap(({ groups, value }) => {
    const keyId = groups?.find(({ key }) => key === "keyId")?.value;
    return typeof keyId === "string" ? [{ keyId, requests: value }] : [];
  });
}
