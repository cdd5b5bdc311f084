// How a failure is told: what was wrong, the request, and how to repeat it.

import type { Failure } from "./run.ts";

/** A failure for people. */
export function failureText({ seed: failing, path, what, request, problems, isConcurrent }: Failure): string {
  return [
    "",
    `FAILED: ${what}`,
    ...problems.map((problem) => `  ${problem}`),
    "",
    "The request, as text for the printf of bash:",
    "",
    request,
    "",
    ...(isConcurrent ? ["It failed only while other requests were under way."] : []),
    `To repeat it: npm run fuzz -- --seed ${failing} --path ${path}`,
    "",
  ].join("\n");
}
