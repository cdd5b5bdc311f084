// What the console says about a response: the outcome, what is left of the limits, and after a failure what to do next.

import { HEADER } from "../../http/header-names.ts";
import { errorIn, errorText, formatInstant, formatNumber, UNREACHABLE } from "../text.ts";

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
  const number = (name: string) => Number(headers.get(name));
  const [limit, remaining] = [HEADER.rateLimitLimit, HEADER.rateLimitRemaining].map((name) =>
    formatNumber(number(name)),
  );
  const left = headers.has(HEADER.rateLimitReset)
    ? ` ${remaining} of ${limit} requests left until ${formatInstant(number(HEADER.rateLimitReset))}.`
    : "";
  if (ok) return { outcome: `${status}: ${success}${left}` };
  const { code } = errorIn(body);
  const remedy = Object.hasOwn(remedies, `${code}`) ? remedies[`${code}`] : undefined;
  const unknown =
    "The service did not send this response. Try again later; if it persists, report it to the operator.";
  const seconds = headers.get(HEADER.retryAfter) ?? "$&";
  const hint = remedy?.replace(`\`${HEADER.retryAfter}\``, seconds) ?? unknown;
  return { outcome: `${status}: ${errorText(status, body)}${left}`, hint };
}

/** What was the matter if there is no response. `writes`: the request can have done something. */
export function explainFailure(of: {
  isLate: boolean;
  isStopped: boolean;
  isOnline: boolean;
  writes: boolean;
}): Explanation {
  const hint = of.writes
    ? `The service may have done it nevertheless. Sending it again with the same \`${HEADER.idempotencyKey}\` is safe.`
    : "Sending it again is safe.";
  if (of.isStopped) return { outcome: "Stopped.", hint };
  if (of.isLate) return { outcome: "No response in time.", hint };
  return {
    outcome: of.isOnline ? `No response. ${UNREACHABLE}` : "No response: this device is offline.",
    hint,
  };
}
