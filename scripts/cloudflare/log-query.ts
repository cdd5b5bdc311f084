// Reads the log that Cloudflare keeps of production's Worker, with the query API of Workers Observability:
// https://developers.cloudflare.com/api/resources/workers/subresources/observability/subresources/telemetry/methods/query/

import { CloudflareApiError, openAccount } from "./account.ts";
import { readConfig } from "./wrangler.ts";

/** The fields of a query's result that matter here. */
interface Result {
  calculations?: { aggregates: { value: number; groups: { value: string | number }[] }[] }[];
  /** `abr_level` n: Cloudflare sampled one line in n. */
  statistics?: { abr_level?: number };
}

/** The API's error code for an invalid token or a missing permission. */
const NOT_ALLOWED = 10_000;

const MS = { key: "ms", keyType: "number" } as const;

/**
 * The requests of a time (Unix time in milliseconds) by status, with the median and 95th percentile of their times. `isSampled` if
 * Cloudflare left out lines.
 */
export async function logByStatus(from: number, to: number) {
  const [{ name }, callApi] = await Promise.all([readConfig(), openAccount()]);
  const parameters = {
    filters: [
      { key: "$metadata.service", operation: "eq", type: "string", value: name },
      { key: "event", operation: "eq", type: "string", value: "request" },
    ],
    filterCombination: "and",
    calculations: [
      { operator: "count", alias: "requests" },
      { operator: "median", alias: "median", ...MS },
      { operator: "p95", alias: "p95", ...MS },
    ],
    groupBys: [{ type: "number", value: "status" }],
  };
  // `dry`: don't save the query.
  const options = { queryId: "petstore-status", view: "calculations", dry: true, ignoreSeries: true };
  const query = { ...options, timeframe: { from, to }, parameters };
  const { calculations, statistics } = await callApi<Result>(
    "/workers/observability/telemetry/query",
    query,
  ).catch((error) => {
    if (!(error instanceof CloudflareApiError && error.code === NOT_ALLOWED)) throw error;
    throw new Error("the credential lacks the permission Workers Observability, which a token can have");
  });
  const [requests, median, p95] = (calculations ?? []).map(({ aggregates }) => {
    return new Map(aggregates.map(({ value, groups: [status] }) => [Number(status?.value), value]));
  });
  if (requests === undefined)
    throw new Error("Cloudflare's API returned something other than a query result");
  const statuses = [...requests].map(([status, count]) => ({
    status,
    requests: count,
    medianMs: median?.get(status) ?? 0,
    p95Ms: p95?.get(status) ?? 0,
  }));
  return {
    statuses: statuses.sort((a, b) => a.status - b.status),
    isSampled: (statistics?.abr_level ?? 1) > 1,
  };
}
