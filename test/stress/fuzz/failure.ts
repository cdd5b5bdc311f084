// The text of a failure: problems, request, and the command that reproduces it.

import type { Failure } from "./run.ts";

export function failureText({ seed: failing, path, what, request, problems, isConcurrent }: Failure): string {
  return [
    "",
    `FAILED: ${what}`,
    ...problems.map((problem) => `  ${problem}`),
    "",
    "Request, as a format for bash's printf:",
    "",
    request,
    "",
    ...(isConcurrent ? ["It failed only while other requests were under way."] : []),
    `To reproduce: npm run fuzz -- --seed ${failing} --path ${path}`,
    "",
  ].join("\n");
}
