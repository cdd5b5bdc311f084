// Collects the log of the Worker instead of printing it, and fails a test whose lines contain a secret.

import { expect } from "vitest";
import { CHECKSUM_LENGTH, RANDOM_LENGTH } from "../../../src/keys/secret-format.ts";

const lines: string[] = [];
const randomParts: string[] = [];

/** From now on the console collects lines instead of printing them. */
export function collectLogLines(): void {
  for (const level of ["debug", "log", "info", "warn", "error"] as const) {
    console[level] = (...values: unknown[]) => void lines.push(values.join(" "));
  }
}

/** The part of a secret that is neither in the key's id nor follows from the rest. */
export function randomPartOf(secret: string): string {
  return secret.slice(-CHECKSUM_LENGTH - RANDOM_LENGTH, -CHECKSUM_LENGTH);
}

/** From now on, no line may contain this secret, nor its random part alone. */
export const trackSecret = (secret: string) => void randomParts.push(randomPartOf(secret));

/** Returns the lines since the last call, parsed. Fails if one has a secret, which its message omits. */
export function takeLogLines(): Record<string, unknown>[] {
  return lines.splice(0).map((line) => {
    const hasSecret = /pet_[0-9A-Za-z]{30,}|bearer|authorization/i.test(line);
    if (hasSecret || randomParts.some((part) => line.includes(part))) expect.fail("a secret is in the log");
    return JSON.parse(line);
  });
}
