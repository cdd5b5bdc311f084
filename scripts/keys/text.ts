// Keys as the command line shows them, as text and as JSON. Never a secret.

import { type KeyRecord, stateOf } from "../../src/keys/store.ts";
import { tableLines } from "../lib/table.ts";

/** A key in the output of `--json`. */
export function keyJson(key: KeyRecord, nowMs: number) {
  return {
    id: key.id,
    name: key.name,
    plan: key.plan,
    perMinute: key.limits.minute,
    perDay: key.limits.day,
    lastFour: key.lastFour,
    createdAt: formatTime(key.createdAtMs),
    expiresAt: key.expiresAtMs === null ? null : formatTime(key.expiresAtMs),
    revokedAt: key.revokedAtMs === null ? null : formatTime(key.revokedAtMs),
    state: stateOf(key, nowMs),
  };
}

/** The output of `list`. */
export function keyTable(keys: KeyRecord[], nowMs: number): string {
  const header = ["ID", "NAME", "PLAN", "PER MINUTE", "PER DAY", "LAST FOUR", "CREATED", "EXPIRES", "STATE"];
  const rows = keys.map((key) => {
    const { id, plan, perMinute, perDay, lastFour, createdAt, expiresAt, state } = keyJson(key, nowMs);
    const name = truncated(printable(key.name));
    return [id, name, plan, `${perMinute}`, `${perDay}`, lastFour, createdAt, expiresAt ?? "never", state];
  });
  return tableLines([header, ...rows], () => true).join("\n");
}

/** `key_0123456789Ab ("Jo's shop")` */
export function keyLabel({ id, name }: KeyRecord): string {
  return `${id} ("${printable(name)}")`;
}

/** `key_0123456789Ab ("Jo's shop"): free plan, 60 requests per minute, 1000 per day` */
export function keyAndPlan(key: KeyRecord): string {
  const { minute, day } = key.limits;
  return `${keyLabel(key)}: ${key.plan} plan, ${minute} requests per minute, ${day} per day`;
}

/** RFC 3339, in UTC, without fractions of a second. */
export function formatTime(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d+Z$/, "Z");
}

/** Without control and format characters, which could deceive the reader of a terminal. */
function printable(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, "?");
}

function truncated(text: string): string {
  const characters = [...text];
  return characters.length > 32 ? `${characters.slice(0, 31).join("")}…` : text;
}
