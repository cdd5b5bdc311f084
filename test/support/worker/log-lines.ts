// Collects the log of the Worker instead of printing it, and checks it after each test.

import { expect } from "vitest";
import { hasSecret } from "./secrets.ts";

export interface LogLine extends Record<string, unknown> {
  event: string;
}

const lines: string[] = [];

/** From now on the console collects lines instead of printing them. */
export function collectLogLines(): void {
  for (const level of ["debug", "log", "info", "warn", "error"] as const) {
    console[level] = (...values: unknown[]) => void lines.push(values.join(" "));
  }
}

/** Returns the lines since the last call, parsed. */
export function takeLogLines(): LogLine[] {
  return lines.splice(0).map((line) => {
    expectNoSecret(line);
    return JSON.parse(line);
  });
}

/** Fails if a line contains a secret. */
export function expectNoSecret(line: string): void {
  // The message omits the line, which has the secret.
  if (hasSecret(line)) expect.fail("a secret is in the log");
}
