// Fills the guide, src/openapi/guide.md, with what the service goes by, so that it can't say anything else. The pages are
// filled in the same way.

import { FRESH_MS } from "../d1/freshness.ts";
import { ERROR_STATUS } from "../http/errors.ts";
import { DEPRECATED_AT, REMOVED_AT } from "../pets/deprecation.ts";
import { REMEMBERED_MS } from "../pets/idempotency.ts";
import { PageQuery } from "../pets/schema.ts";
import { REQUESTS_PER_MINUTE } from "../rate-limit/anonymous.ts";
import { BAN_GRACE_MS, BAN_MS, MIN_TOLERATED_REFUSALS } from "../rate-limit/object/quota.ts";
import { PLAN_LIMITS } from "../rate-limit/plans.ts";
import { DAYS_KEPT } from "../rate-limit/protocol.ts";
import { MEANING } from "./errors.ts";
import { toJsonSchema } from "./schemas.ts";

const { limit } = toJsonSchema(PageQuery).properties ?? {};

const FACTS: Record<string, string> = {
  minLimit: `${limit?.minimum}`,
  maxLimit: `${limit?.maximum}`,
  defaultLimit: `${limit?.default}`,
  // A document does not know where it is read.
  origin: "https://petstore.example",
  believedSeconds: `${FRESH_MS / 1000}`,
  keylessPerMinute: `${REQUESTS_PER_MINUTE}`,
  daysKept: `${DAYS_KEPT}`,
  toleratedRefusals: `${MIN_TOLERATED_REFUSALS}`,
  banGraceSeconds: `${BAN_GRACE_MS / 1000}`,
  banMinutes: `${BAN_MS / 60_000}`,
  rememberedHours: `${REMEMBERED_MS / 3_600_000}`,
  deprecatedAt: longDate(DEPRECATED_AT),
  removedAt: longDate(REMOVED_AT),
  plans: table(
    ["Plan", "Requests per minute", "Requests per day"],
    Object.entries(PLAN_LIMITS).map(([plan, limits]) => [
      plan[0]?.toUpperCase() + plan.slice(1),
      limits?.minute.toLocaleString("en") ?? "as agreed",
      limits?.day.toLocaleString("en") ?? "as agreed",
    ]),
  ),
  errors: table(
    ["Status", "`code`", "When, and what to do"],
    Object.entries(ERROR_STATUS).map(([code, status]) => [
      `${status}`,
      `\`${code}\``,
      MEANING[code as keyof typeof MEANING],
    ]),
  ),
};

/** The guide in Markdown, with every `{{fact}}` filled in. Throws if there is no such fact. */
export function fillGuide(template: string): string {
  return fill(template, FACTS);
}

/** A template in which every `{{fact}}` is filled in. Throws if there is no such fact. */
export function fill(template: string, facts: Record<string, string>): string {
  return template.replace(/\{\{(\w+)\}\}/g, (_, name: string) => {
    const fact = facts[name];
    if (fact === undefined) throw new Error(`${name} is asked for, which nobody knows`);
    return fact;
  });
}

function table(head: string[], rows: string[][]): string {
  return [head, head.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |`).join("\n");
}

function longDate(date: Date): string {
  return date.toLocaleDateString("en-GB", { dateStyle: "long", timeZone: "UTC" });
}
