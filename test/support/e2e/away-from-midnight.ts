// Tests count requests of a UTC day, or write rows of today: a day that begins meanwhile would be another one. So a file begins a minute
// before midnight at the latest, and its tests half a minute before.

import { setTimeout as wait } from "node:timers/promises";
import { beforeEach } from "vitest";
import { DAY_MS } from "../../../src/limits/protocol.ts";

async function waitForMidnightWithin(timeMs: number): Promise<void> {
  const leftMs = DAY_MS - (Date.now() % DAY_MS);
  if (leftMs < timeMs) await wait(leftMs);
}

await waitForMidnightWithin(60_000);
beforeEach(() => waitForMidnightWithin(30_000));
