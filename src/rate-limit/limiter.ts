// The Durable Object that counts one API key's requests; its name is the key's id. Minute and day stand in
// one row, so a crash can't separate them. The windows in memory are a copy of that row: the output gate
// holds every answer back until the row behind it is durable, so eviction loses nothing that anybody was told.
// No alarm, no timer: a window rolls over when it is next looked at.

import { DurableObject } from "cloudflare:workers";
import { type Decision, type Limits, take, unusedWindow, type Window } from "./window.ts";

const CREATE_COUNTERS = `
  CREATE TABLE IF NOT EXISTS counters (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    minute_start_ms INTEGER NOT NULL,
    minute_used INTEGER NOT NULL,
    day_start_ms INTEGER NOT NULL,
    day_used INTEGER NOT NULL
  ) STRICT`;

const SELECT_COUNTERS = "SELECT minute_start_ms, minute_used, day_start_ms, day_used FROM counters";

// On an INTEGER primary key this writes one row, table and index being the same.
const UPSERT_COUNTERS = `
  INSERT INTO counters (id, minute_start_ms, minute_used, day_start_ms, day_used) VALUES (1, ?1, ?2, ?3, ?4)
  ON CONFLICT (id) DO UPDATE SET minute_start_ms = ?1, minute_used = ?2, day_start_ms = ?3, day_used = ?4`;

type CountersRow = Record<"minute_start_ms" | "minute_used" | "day_start_ms" | "day_used", number>;

export class RateLimiter extends DurableObject<Env> {
  /** The minute and the day, in the order of the columns. Their limits come with each request. */
  windows: Window[];

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    ctx.storage.sql.exec(CREATE_COUNTERS);
    const [row] = ctx.storage.sql.exec<CountersRow>(SELECT_COUNTERS);
    this.windows = [
      { ...unusedWindow("minute", 0), ...(row && { startMs: row.minute_start_ms, used: row.minute_used }) },
      { ...unusedWindow("day", 0), ...(row && { startMs: row.day_start_ms, used: row.day_used }) },
    ];
  }

  /**
   * Counts a request if both windows have room. There is no `await` between reading and writing, so calls at
   * the same time are decided one after the other. A caller that got no answer must not call again for the
   * same request: it may have been counted.
   */
  take(limits: Limits): Decision {
    const windows = this.windows.map((window) => ({ ...window, limit: limits[window.name] }));
    const decision = take(windows, Date.now());
    if (decision.admitted) {
      const row = decision.windows.flatMap(({ startMs, used }) => [startMs, used]);
      this.ctx.storage.sql.exec(UPSERT_COUNTERS, ...row);
      this.windows = decision.windows;
    }
    return decision;
  }
}
