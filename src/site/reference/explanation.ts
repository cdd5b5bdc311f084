// What the console says about a response: the outcome, and after a failure what to do next.

import { HEADER } from "../../http/header-names.ts";
import { canBeSent, MALFORMED_KEY, storedKey } from "../key.ts";
import { errorIn, errorText, formatInstant, UNREACHABLE } from "../text.ts";

/** The remedy of each error code, in Markdown. The build defines it, from src/openapi/errors.ts. */
declare const REMEDIES: Record<string, string>;

/** A response as the component that shows it gets it. Without a status, there was none. */
export interface LiveResponse {
  get(name: "status"): number | undefined;
  get(name: "text"): string | undefined;
  getIn(path: ["headers", string]): string | undefined;
}

interface Explanation {
  hasFailed: boolean;
  /** The outcome, and what remains of the rate limit. */
  outcome: string;
  /** In Markdown. */
  hint?: string | undefined;
}

export function explain(response: LiveResponse): Explanation {
  const header = (name: string) => response.getIn(["headers", name.toLowerCase()]);
  const status = response.get("status");
  if (status === undefined)
    return { hasFailed: true, outcome: canBeSent(storedKey()) ? UNREACHABLE : MALFORMED_KEY };
  const [limit, remaining, reset] = [
    header(HEADER.rateLimitLimit),
    header(HEADER.rateLimitRemaining),
    header(HEADER.rateLimitReset),
  ];
  const rest =
    limit === undefined || remaining === undefined || reset === undefined
      ? ""
      : ` ${remaining} of ${limit} requests left until ${formatInstant(Number(reset))}.`;
  if (status < 400) return { hasFailed: false, outcome: `Done.${rest}` };
  // The service's message about a missing key explains headers, which this page sets.
  if (status === 401 && storedKey() === "")
    return { hasFailed: true, outcome: `Enter an API key above.${rest}` };
  const body = response.get("text") ?? "";
  const hint = hintFor(errorIn(body).code, header(HEADER.retryAfter));
  return { hasFailed: true, outcome: `${errorText(status, body)}${rest}`, hint };
}

function hintFor(code: unknown, retryAfter: string | undefined): string {
  const remedy = Object.hasOwn(REMEDIES, `${code}`) ? REMEDIES[`${code}`] : undefined;
  if (remedy === undefined)
    return "The service did not send this response. Try again later; if it persists, report it to the operator.";
  return retryAfter === undefined ? remedy : remedy.replace(`\`${HEADER.retryAfter}\``, retryAfter);
}
