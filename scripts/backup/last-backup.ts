// The latest backup of a target's databases. Its keys database knows it, because the file can be on any machine.

import { read } from "../../src/d1/statements.ts";
import { patiently } from "./patience.ts";

/** A complete backup: when it began (Unix time), and its maker: a login name and a machine. */
export interface LastBackup {
  beganAtMs: number;
  madeBy: string;
}

// The last one to end replaces the others, whatever its time: a wrong clock must not hide the backups after it.
const RECORD = `
  INSERT INTO backups (id, began_at_ms, made_by) VALUES (1, ?1, ?2)
  ON CONFLICT (id) DO UPDATE SET began_at_ms = excluded.began_at_ms, made_by = excluded.made_by`;
const SELECT = "SELECT began_at_ms AS beganAtMs, made_by AS madeBy FROM backups";

/** Throws if the database can't be written, or lacks the table. */
export async function recordBackup(keys: D1Database, { beganAtMs, madeBy }: LastBackup): Promise<void> {
  await patiently(() => keys.prepare(RECORD).bind(beganAtMs, madeBy).run());
}

/** Null if there was none. Throws if the database can't be read, or lacks the table. */
export function findLastBackup(keys: D1Database): Promise<LastBackup | null> {
  return read(() => keys.prepare(SELECT).first<LastBackup>());
}
