// The delays of an object: which waits make leases shorter, and for how long.

import { expect, it } from "vitest";
import { Delays } from "../../src/keys/object/delays.ts";

const START_MS = 1_000_000;

it("a wait counts while it lasts, with its time in the isolate, and for at least a second after", () => {
  const delays = new Delays();
  expect(delays.longestMs(START_MS)).toBe(0);
  const endFirst = delays.begin(START_MS);
  const end = delays.begin(START_MS - 300);
  expect(delays.longestMs(START_MS + 400)).toBe(700);
  endFirst(START_MS + 400);
  end(START_MS + 999);
  expect(delays.longestMs(START_MS + 1_998)).toBe(1_299);
  expect(delays.longestMs(START_MS + 3_000)).toBe(0);
});

it("waits of a flood don't add up, and one long wait is forgotten though others follow", () => {
  const delays = new Delays();
  delays.begin(START_MS - 2_000)(START_MS);
  for (let ms = 0; ms < 5_000; ms += 10) delays.begin(START_MS + ms)(START_MS + ms + 100);
  expect(delays.longestMs(START_MS + 5_100)).toBe(100);
});

it("after the clock has stepped back, earlier waits don't count", () => {
  const delays = new Delays();
  delays.begin(START_MS)(START_MS + 60_000);
  expect(delays.longestMs(START_MS + 1_000)).toBe(0);
});
