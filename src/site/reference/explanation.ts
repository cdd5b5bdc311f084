// What the console says about a response: the outcome, what is left of the limits, and after a failure what to do next.

import { HEADER } from "../../http/header-names.ts";
import { errorIn, formatInstant, formatNumber, UNREACHABLE } from "../text.ts";

/** In Markdown. A failure has a hint. */
export interface Explanation {
  outcome: string;
  hint?: string;
}

/** `success`: what a successful response is. `remedies`: what helps against each error, by its code. */
export function explain(
  { status, ok, headers }: Response,
  body: string,
  success: string,
  remedies: Record<string, string>,
): Explanation {
  const [limit, remaining, reset] = [
    HEADER.rateLimitLimit,
    HEADER.rateLimitRemaining,
    HEADER.rateLimitReset,
  ].map((name) => Number(headers.get(name) ?? Number.NaN)) as [number, number, number];
  const isOurs = Number.isFinite(limit + remaining + reset);
  const left = isOurs
    ? ` ${formatNumber(remaining)} of ${formatNumber(limit)} requests left until ${formatInstant(reset)}.`
    : "";
  const { code, message } = errorIn(body);
  const remedy = Object.hasOwn(remedies, `${code}`) ? remedies[`${code}`] : undefined;
  if (!isOurs || (!ok && remedy === undefined))
    return {
      outcome: `${status}: unexpected response.${left}`,
      hint: "The service did not send it. Try again later; if it persists, report it to the operator.",
    };
  const isReplayed = headers.has(HEADER.idempotentReplayed);
  const outcome = isReplayed ? `${success} An earlier request with this key has added it.` : success;
  if (ok) return { outcome: `${status}: ${outcome}${left}` };
  const seconds = headers.get(HEADER.retryAfter);
  const hint = seconds === null ? remedy : remedy?.replace(`\`${HEADER.retryAfter}\``, seconds);
  return { outcome: `${status}: ${message}.${left}`, hint: `${hint}` };
}

/** What was the matter if there is no response. `writes`: the request can have done something, which `isRepeatable` makes safe. */
export function explainFailure(of: {
  isLate: boolean;
  isStopped: boolean;
  isOnline: boolean;
  writes: boolean;
  isRepeatable: boolean;
}): Explanation {
  const hint = !of.writes
    ? "Sending it again is safe."
    : of.isRepeatable
      ? `The service may have done it nevertheless. Sending it again with the same \`${HEADER.idempotencyKey}\` is safe.`
      : `The service may have done it nevertheless: find out before you send it again, with an \`${HEADER.idempotencyKey}\`.`;
  if (of.isStopped) return { outcome: "Stopped.", hint };
  if (of.isLate) return { outcome: "No response in time.", hint };
  return {
    outcome: of.isOnline ? `No response. ${UNREACHABLE}` : "No response: this device is offline.",
    hint,
  };
}
