// Keys as the command line shows them: to people, and with --json to programs. Never a secret.

import type { KeyRecord, KeyState } from "../../src/keys/store.ts";
import { stateOf } from "../../src/keys/store.ts";

/** A key as `--json` shows it. */
export interface PublicKey {
  id: string;
  name: string;
  plan: string;
  perMinute: number;
  perDay: number;
  lastFour: string;
  createdAt: string;
  expiresAt: string | null;
  revokedAt: string | null;
  state: KeyState;
}

export function publicKey(key: KeyRecord, nowMs: number): PublicKey {
  return {
    id: key.id,
    name: key.name,
    plan: key.plan,
    perMinute: key.limits.minute,
    perDay: key.limits.day,
    lastFour: key.lastFour,
    createdAt: time(key.createdAtMs),
    expiresAt: key.expiresAtMs === null ? null : time(key.expiresAtMs),
    revokedAt: key.revokedAtMs === null ? null : time(key.revokedAtMs),
    state: stateOf(key, nowMs),
  };
}

/** The table of `list`. */
export function keyTable(keys: KeyRecord[], nowMs: number): string {
  return table([
    ["ID", "NAME", "PLAN", "PER MINUTE", "PER DAY", "LAST FOUR", "CREATED", "EXPIRES", "STATE"],
    ...keys.map((key) => [
      key.id,
      shortened(printable(key.name)),
      key.plan,
      `${key.limits.minute}`,
      `${key.limits.day}`,
      key.lastFour,
      time(key.createdAtMs),
      key.expiresAtMs === null ? "never" : time(key.expiresAtMs),
      stateOf(key, nowMs),
    ]),
  ]);
}

/** `key_0123456789Ab ("Jo's shop")` */
export function nameOf({ id, name }: KeyRecord): string {
  return `${id} ("${printable(name)}")`;
}

/** `the free plan: 60 requests a minute, 1000 a day` */
export function planOf({ plan, limits }: KeyRecord): string {
  return `the ${plan} plan: ${limits.minute} requests a minute, ${limits.day} a day`;
}

/** RFC 3339, in UTC, to the second. */
export function time(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d+Z$/, "Z");
}

/** A name without what could play tricks on a terminal. */
function printable(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, "?");
}

/** A name that leaves room for the other columns. */
function shortened(text: string): string {
  const characters = [...text];
  return characters.length > 32 ? `${characters.slice(0, 31).join("")}…` : text;
}

function table(rows: string[][]): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return rows
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}
