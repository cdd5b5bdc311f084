// Turns what a schema reports into `invalid_request`.

import type * as z from "zod/mini";
import { ApiError } from "./errors.ts";
import { MESSAGES } from "./messages.ts";

type Result = { success: true } | { success: false; error: { issues: readonly z.core.$ZodIssue[] } };

/** A hook for zValidator. Throws `invalid_request`. */
export function requireValid(result: Result): void {
  if (!result.success) throw invalidRequest(result.error.issues);
}

/** The error for what a schema reports: `name: is required; status: must be one of …`. */
export function invalidRequest(issues: readonly z.core.$ZodIssue[]): ApiError {
  const { field } = MESSAGES.invalid_request;
  const problems = issues.map(({ path, message }) => field(path.join(".") || "body", message));
  return new ApiError("invalid_request", problems.join("; "));
}
