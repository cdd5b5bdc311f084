// The Durable Object that counts one API key's requests; its name is the key's id. Each UTC day has one row, in a ring:
// the row of today is all of the meter, so a crash can't separate its parts, and those of other days are their totals.
// The meter in memory is what counts; the row is never behind it in what was let in (reservation.ts), and the output gate
// holds every answer back until the row that it needs is durable. So eviction and crash give nobody more than the limit.
// No timer: a window rolls over when it is next looked at. One alarm, set on the first request of a day: if it ever rings,
// nobody has used the key for 40 days, and the storage goes.

import { DurableObject } from "cloudflare:workers";
import { randomBase62 } from "../base62.ts";
import type { Lease } from "./lease.ts";
import {
  DAYS_KEPT,
  decide,
  type Meter,
  standing,
  TAKE_ID_LENGTH,
  type Take,
  UNUSED_METER,
  type Verdict,
} from "./meter.ts";
import { burn, isExact, mustStore, type Reservation, reserve } from "./reservation.ts";
import { type Decision, type Limits, unusedWindow, WINDOW_SECONDS, type Window } from "./window.ts";

export const DAY_MS = WINDOW_SECONDS.day * 1000;

/** From the beginning of the day of the last request, so at least 40 days after that request. */
const KEPT_UNUSED_MS = 41 * DAY_MS;

const CREATE_DAYS = `
  CREATE TABLE IF NOT EXISTS days (
    slot INTEGER PRIMARY KEY CHECK (slot BETWEEN 0 AND ${DAYS_KEPT - 1}),
    minute_start_ms INTEGER NOT NULL,
    minute_used INTEGER NOT NULL,
    minute_refused INTEGER NOT NULL,
    day_start_ms INTEGER NOT NULL,
    day_used INTEGER NOT NULL,
    day_refused INTEGER NOT NULL,
    banned_until_ms INTEGER NOT NULL,
    recent_takes TEXT NOT NULL,
    ahead INTEGER NOT NULL DEFAULT 0,
    minute_burnt INTEGER NOT NULL DEFAULT 0,
    day_burnt INTEGER NOT NULL DEFAULT 0,
    leases TEXT NOT NULL DEFAULT '[]'
  ) STRICT`;

// What the table of an earlier version does not have. That version may come back: its rows then have nothing ahead.
const ADD_COLUMNS = [
  "ALTER TABLE days ADD COLUMN ahead INTEGER NOT NULL DEFAULT 0",
  "ALTER TABLE days ADD COLUMN minute_burnt INTEGER NOT NULL DEFAULT 0",
  "ALTER TABLE days ADD COLUMN day_burnt INTEGER NOT NULL DEFAULT 0",
  "ALTER TABLE days ADD COLUMN leases TEXT NOT NULL DEFAULT '[]'",
];

const COLUMNS = `minute_start_ms, minute_used, minute_refused, day_start_ms, day_used, day_refused, banned_until_ms,
  recent_takes, ahead, minute_burnt, day_burnt, leases`;

const SELECT_LATEST_DAY = `SELECT ${COLUMNS} FROM days ORDER BY day_start_ms DESC LIMIT 1`;

// On an INTEGER primary key this writes one row, table and index being the same; the row of 30 days ago makes room.
const REPLACE_DAY = `INSERT OR REPLACE INTO days (slot, ${COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)`;

const SELECT_TOTALS = `
  SELECT day_start_ms, day_used, day_refused FROM days WHERE day_start_ms > ?1 ORDER BY day_start_ms`;

const SELECT_TABLES = "SELECT name, sql FROM sqlite_schema WHERE type = 'table'";

// What an earlier version stored: one row for the minute and the day. If that ran once more after this one, for a while,
// both have counted, and their sum errs on the safe side.
const MOVE_COUNTERS = `
  INSERT INTO days (slot, ${COLUMNS})
  SELECT day_start_ms / ${DAY_MS} % ${DAYS_KEPT}, minute_start_ms, minute_used, 0, day_start_ms, day_used, 0, 0, '',
    0, 0, 0, '[]'
  FROM counters WHERE true
  ON CONFLICT (slot) DO UPDATE SET
    minute_start_ms = max(minute_start_ms, excluded.minute_start_ms),
    minute_used = minute_used + excluded.minute_used,
    day_start_ms = max(day_start_ms, excluded.day_start_ms),
    day_used = day_used + excluded.day_used`;
const DROP_COUNTERS = "DROP TABLE counters";

interface DayRow extends Record<string, SqlStorageValue> {
  minute_start_ms: number;
  minute_used: number;
  minute_refused: number;
  day_start_ms: number;
  day_used: number;
  day_refused: number;
  banned_until_ms: number;
  recent_takes: string;
  ahead: number;
  minute_burnt: number;
  day_burnt: number;
  leases: string;
}

/** What a key did on one UTC day. Requests during a ban are in neither number. */
export interface DayTotals {
  /** Unix time. */
  startMs: number;
  admitted: number;
  refused: number;
}

/** How a key stands, and its days with at least one request among the last 30, the oldest first. */
export interface Usage {
  standing: Decision;
  days: DayTotals[];
}

export class RateLimiter extends DurableObject<Env> {
  /** Undefined until the storage has been read. */
  meter: Meter | undefined;
  #stored: Reservation = UNUSED_RESERVATION;

  /**
   * Counts requests as far as both windows have room and there is no ban. There is no `await` between reading and writing,
   * so calls at the same time are decided one after the other. A caller that got no answer may call again for the same
   * take: it is counted once.
   */
  take(
    limits: Limits,
    // Callers of an earlier version send no take, and some of them run until a deployment has reached everywhere.
    request: Take = { id: randomBase62(TAKE_ID_LENGTH), unreported: [], bannedUntilMs: 0 },
  ): Verdict {
    const nowMs = Date.now();
    const before = this.#read();
    const { verdict, meter } = decide(before, limits, request, nowMs);
    if (meter !== before) this.#keep(meter, before, limits, request, nowMs);
    return verdict;
  }

  /** How the key stands, and its daily totals. Counts nothing. */
  usage(limits: Limits): Usage {
    const meter = this.#read();
    const now = standing(meter, limits, Date.now());
    if (meter === UNUSED_METER) return { standing: now, days: [] };
    const since = dayStartMs(now) - DAYS_KEPT * DAY_MS;
    const rows = this.ctx.storage.sql.exec<DayRow>(SELECT_TOTALS, since);
    const days = Array.from(rows, ({ day_start_ms: startMs, day_used, day_refused }) => {
      // Of the current day more may be stored than there was.
      const { used = day_used, refused = day_refused } =
        meter.windows.find((window) => window.name === "day" && window.startMs === startMs) ?? {};
      return { startMs, admitted: used, refused };
    });
    return { standing: now, days };
  }

  /** Removes everything. Does nothing if the clock was set back since the alarm: the next day's request sets it anew. */
  override async alarm(): Promise<void> {
    if (Date.now() < dayStartMs(this.#read()) + KEPT_UNUSED_MS) return;
    // Before the tables go: this object may be called again without being constructed again.
    this.meter = undefined;
    await this.ctx.storage.deleteAll();
  }

  #read(): Meter {
    if (this.meter === undefined) {
      this.#stored = burn(readReservation(this.ctx.storage));
      this.meter = this.#stored.meter;
    }
    return this.meter;
  }

  /** Remembers the meter, and stores it if need be: one row; on the first request of a day, the alarm besides. */
  #keep(meter: Meter, before: Meter, limits: Limits, take: Take, nowMs: number): void {
    if (mustStore(meter, this.#stored, take, nowMs)) {
      const { storage } = this.ctx;
      const isNewDay = dayStartMs(meter) !== dayStartMs(before);
      if (before === UNUSED_METER) storage.sql.exec(CREATE_DAYS);
      // The day that is over keeps its totals.
      else if (isNewDay && !isExact(before, this.#stored))
        storeDay(storage, { ...this.#stored, meter: before, ahead: 0 });
      const stored = reserve(meter, limits, this.#stored, take, nowMs);
      storeDay(storage, stored);
      if (isNewDay) setAlarm(storage, meter);
      this.#stored = stored;
    }
    this.meter = meter;
  }
}

const UNUSED_RESERVATION: Reservation = { meter: UNUSED_METER, ahead: 0, burnt: [0, 0] };

function storeDay({ sql }: DurableObjectStorage, { meter, ahead, burnt }: Reservation): void {
  const counts = meter.windows.flatMap(({ startMs, used, refused }) => [startMs, used, refused]);
  const { bannedUntilMs, recentTakes, leases } = meter;
  const slot = (dayStartMs(meter) / DAY_MS) % DAYS_KEPT;
  sql.exec(REPLACE_DAY, slot, ...counts, bannedUntilMs, recentTakes, ahead, ...burnt, JSON.stringify(leases));
}

/** What was stored last, after the table was made what this version expects. */
function readReservation(storage: DurableObjectStorage): Reservation {
  const { sql } = storage;
  const tables = new Map(
    Array.from(sql.exec<{ name: string; sql: string }>(SELECT_TABLES), (table) => [table.name, table.sql]),
  );
  const isOfFirstVersion = tables.has("counters");
  const days = tables.get("days");
  if (days === undefined && !isOfFirstVersion) return UNUSED_RESERVATION;
  const isOfEarlierVersion = days !== undefined && !days.includes("ahead");
  const statements = [
    ...(days === undefined ? [CREATE_DAYS] : isOfEarlierVersion ? ADD_COLUMNS : []),
    ...(isOfFirstVersion ? [MOVE_COUNTERS, DROP_COUNTERS] : []),
  ];
  for (const statement of statements) sql.exec(statement);
  const [row] = sql.exec<DayRow>(SELECT_LATEST_DAY);
  if (row === undefined) return UNUSED_RESERVATION;
  const reservation = { meter: meterOf(row), ahead: row.ahead, burnt: [row.minute_burnt, row.day_burnt] };
  if (isOfFirstVersion) setAlarm(storage, reservation.meter);
  return reservation;
}

/** Not awaited: the output gate waits for it as for every other write. */
function setAlarm(storage: DurableObjectStorage, meter: Meter): void {
  void storage.setAlarm(dayStartMs(meter) + KEPT_UNUSED_MS);
}

function meterOf(row: DayRow): Meter {
  const minute = { startMs: row.minute_start_ms, used: row.minute_used, refused: row.minute_refused };
  const day = { startMs: row.day_start_ms, used: row.day_used, refused: row.day_refused };
  return {
    // The limits come with each request.
    windows: [
      { ...unusedWindow("minute", 0), ...minute },
      { ...unusedWindow("day", 0), ...day },
    ],
    bannedUntilMs: row.banned_until_ms,
    recentTakes: row.recent_takes,
    leases: JSON.parse(row.leases) as Lease[],
  };
}

function dayStartMs({ windows }: { windows: Window[] }): number {
  return windows.find(({ name }) => name === "day")?.startMs ?? 0;
}
