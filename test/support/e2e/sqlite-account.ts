// An account whose databases are SQLite files, opened in this process: faster than D1, which accepts less SQL. A bookmark of Time Travel
// is a copy of the file. Unlike D1, it knows only the moments at which a bookmark was taken.

import { copyFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { temporaryFolder } from "../../../bench/measure/cleanup.ts";
import { idOf, type Routes, type Statement } from "./cloudflare-api.ts";

export function sqliteAccount() {
  const { folder, remove } = temporaryFolder(true);
  const opened = new Map<string, DatabaseSync>();
  /** The files of bookmarks. */
  const copies: { file: string; atMs: number }[] = [];

  const fileOf = (id: string) => join(folder, id);
  function open(id: string): DatabaseSync {
    const database = opened.get(id) ?? new DatabaseSync(fileOf(id));
    opened.set(id, database);
    return database;
  }

  async function query(id: string, statements: Statement[]) {
    const database = open(id);
    database.exec("BEGIN");
    try {
      const run = ({ sql, params = [] }: Statement) => ({ results: database.prepare(sql).all(...params) });
      const results = statements.map(run);
      database.exec("COMMIT");
      return results;
    } catch (error) {
      database.exec("ROLLBACK");
      throw error;
    }
  }

  /** Takes a bookmark, which is a position in `copies`. */
  function bookmark(id: string): string {
    const file = fileOf(`${id}-${copies.length}`);
    open(id);
    copyFileSync(fileOf(id), file);
    return `${copies.push({ file, atMs: Date.now() }) - 1}`;
  }

  function restore(id: string, bookmark = ""): void {
    const copy = copies[Number(bookmark)];
    if (copy === undefined) throw new Error("There is no such bookmark");
    opened.get(id)?.close();
    opened.delete(id);
    copyFileSync(copy.file, fileOf(id));
  }

  const routes: Routes = {
    "GET /d1/database/:id/time_travel/bookmark": ({ req }) => {
      const timestamp = req.query("timestamp");
      if (timestamp === undefined) return { bookmark: bookmark(req.param("id") ?? "") };
      return { bookmark: `${copies.findLastIndex(({ atMs }) => atMs <= Date.parse(timestamp))}` };
    },
    "POST /d1/database/:id/time_travel/restore": ({ req }) => {
      restore(req.param("id") ?? "", req.query("bookmark"));
      return {};
    },
  };
  return {
    query,
    routes,
    bookmark: (name: string) => bookmark(idOf(name)),
    restore: (name: string, bookmark: string) => restore(idOf(name), bookmark),
    remove,
  };
}
