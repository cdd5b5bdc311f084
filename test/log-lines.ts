// What the Worker writes to its log while tests run: collected instead of printed, and looked through after each test.

import { expect } from "vitest";

export interface LogLine extends Record<string, unknown> {
  event: string;
}

const lines: string[] = [];
const issuedSecrets = new Set<string>();

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

/** Has every line searched for a secret from now on, and for its random part alone. */
export function issueSecret(secret: string): void {
  issuedSecrets.add(secret.slice(4, 36));
}

/** A line must hold nothing that looks like a key, nor one that was issued, nor a header that has one. */
export function expectNoSecret(line: string): void {
  expect(line).not.toMatch(/pet_[0-9A-Za-z]{30,}|bearer|authorization/i);
  for (const secret of issuedSecrets) if (line.includes(secret)) expect.fail("a secret is in the log");
}
