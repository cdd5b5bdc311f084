// Fills in the placeholders of the guide, src/openapi/guide.md, from the constants that the service uses, and those of the pages.

import { VERSION } from "../../client/src/version.ts";
import { ERROR_STATUS, type ErrorCode } from "../http/errors.ts";
import { HEADER } from "../http/header-names.ts";
import { ID_LENGTH } from "../http/request-context.ts";
import { PREFERENCE } from "../http/server-timing.ts";
import { PLAN_LIMITS, WINDOW_NAMES } from "../keys/plans.ts";
import {
  BAN_GRACE_MS,
  BAN_MS,
  DAYS_KEPT,
  KEY_MS,
  MAX_WAIT_MS,
  MIN_TOLERATED_REFUSALS,
  REQUESTS_PER_MINUTE,
  TOLERATED_LIMITS,
} from "../limits/index.ts";
import { DEPRECATED_AT, REMOVED_AT } from "../pets/deprecation.ts";
import { RETENTION_MS } from "../pets/idempotency.ts";
import { PageQuery } from "../pets/schema.ts";
import { PLACEHOLDERS } from "../samples/samples.ts";
import { allMessages } from "./error-examples.ts";
import { meaning } from "./errors.ts";
import { toJsonSchema } from "./schemas.ts";

const { limit } = toJsonSchema(PageQuery).properties ?? {};

const VALUES: Record<string, string> = {
  ...HEADER,
  preference: PREFERENCE,
  minLimit: `${limit?.minimum}`,
  maxLimit: `${limit?.maximum}`,
  defaultLimit: `${limit?.default}`,
  // The document does not know its own origin.
  origin: PLACEHOLDERS.origin,
  clientVersion: VERSION,
  keyChangeSeconds: `${KEY_MS / 1000}`,
  anonymousPerMinute: `${REQUESTS_PER_MINUTE}`,
  daysKept: `${DAYS_KEPT}`,
  maxWaitSeconds: `${MAX_WAIT_MS / 1000}`,
  toleratedRefusals: `${MIN_TOLERATED_REFUSALS}`,
  toleratedLimits: `${TOLERATED_LIMITS}`,
  requestIdLength: `${ID_LENGTH.min} to ${ID_LENGTH.max}`,
  banGraceSeconds: `${BAN_GRACE_MS / 1000}`,
  banMinutes: `${BAN_MS / 60_000}`,
  idempotencyHours: `${RETENTION_MS / 3_600_000}`,
  deprecatedAt: longDate(DEPRECATED_AT),
  removedAt: longDate(REMOVED_AT),
  windows: new Intl.ListFormat("en-GB").format(WINDOW_NAMES.map((name) => `the UTC ${name}`)),
  plans: table(
    ["Plan", ...WINDOW_NAMES.map((name) => `Requests per ${name}`)],
    Object.entries(PLAN_LIMITS).map(([plan, limits]) => [
      plan[0]?.toUpperCase() + plan.slice(1),
      ...WINDOW_NAMES.map((name) => limits?.[name].toLocaleString("en") ?? "as agreed"),
    ]),
  ),
  errors: table(
    ["Status", "`code`", "Cause and remedy"],
    Object.entries(ERROR_STATUS).map(([code, status]) => [
      `${status}`,
      `\`${code}\``,
      meaning(code as ErrorCode),
    ]),
  ),
  messages: table(
    ["`code`", "Message", "Request"],
    allMessages().map(([code, { request, message }]) => [`\`${code}\``, `\`${message}\``, request]),
  ),
};

/** Fills in every `{{name}}` of the guide. Throws if a name is unknown. `others` are values that the guide does not have. */
export function fillGuide(template: string, others: Record<string, string> = {}): string {
  return fill(template, { ...VALUES, ...others });
}

/** Fills in every `{{name}}` of a template. Throws if a name is unknown. */
export function fill(template: string, values: Record<string, string>): string {
  return template.replace(/\{\{(\w+)\}\}/g, (_, name: string) => {
    const value = values[name];
    if (value === undefined) throw new Error(`unknown placeholder {{${name}}}`);
    return value;
  });
}

function table(head: string[], rows: string[][]): string {
  return [head, head.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |`).join("\n");
}

function longDate(date: Date): string {
  return date.toLocaleDateString("en-GB", { dateStyle: "long", timeZone: "UTC" });
}
