// Collects the log of the Worker instead of printing it, and fails a test whose lines contain a secret.

import { expect } from "vitest";

const lines: string[] = [];

/** From now on the console collects lines instead of printing them. */
export function collectLogLines(): void {
  for (const level of ["debug", "log", "info", "warn", "error"] as const) {
    console[level] = (...values: unknown[]) => void lines.push(values.join(" "));
  }
}

/** All that the line of a request may have: nothing else that a client sends is in the log. */
const FIELDS =
  "event requestId method route status ms colo country petId keyId plan window remaining code failure failures".split(
    " ",
  );

/** Returns the lines since the last call, parsed, without their times. Fails if one has a secret, which its message omits. */
export function takeLogLines(): Record<string, unknown>[] {
  return lines.splice(0).map((line) => {
    if (/pet_[0-9A-Za-z]{30,}|\bbearer\b|authorization/i.test(line)) expect.fail("a secret is in the log");
    const { time, ...fields }: Record<string, unknown> = JSON.parse(line);
    expect(new Date(`${time}`).toISOString()).toBe(time);
    if (fields.event === "request") expect(FIELDS).toEqual(expect.arrayContaining(Object.keys(fields)));
    return fields;
  });
}
