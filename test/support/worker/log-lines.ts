// What the Worker writes to its log while tests run: collected instead of printed, and looked through after each test.

import { expect } from "vitest";
import { hasSecret } from "./secrets.ts";

export interface LogLine extends Record<string, unknown> {
  event: string;
}

const lines: string[] = [];

/** From now on nothing that is written to the console is printed. */
export function collectLogLines(): void {
  for (const level of ["debug", "log", "info", "warn", "error"] as const) {
    console[level] = (...values: unknown[]) => void lines.push(values.join(" "));
  }
}

/** The lines since the last call, parsed. */
export function takeLogLines(): LogLine[] {
  return lines.splice(0).map((line) => {
    expectNoSecret(line);
    return JSON.parse(line);
  });
}

/** A line must hold nothing that looks like a key, nor one that was issued, nor a header that has one. */
export function expectNoSecret(line: string): void {
  // The line itself is not printed: it may have a secret.
  if (hasSecret(line)) expect.fail("a secret is in the log");
}
