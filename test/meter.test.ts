// What a take does to a meter, where the model does not go: reports, and plans that change between requests.

import { expect, it } from "vitest";
import { decide, type Meter, type Take, UNUSED_METER } from "../src/rate-limit/meter.ts";
import type { Limits } from "../src/rate-limit/window.ts";

const FREE = { minute: 60, day: 1_000 };

let takes = 0;

/** A take, which may report others. */
function take(unreported: Take["unreported"] = [], bannedUntilMs = 0): Take {
  takes += 1;
  return { id: `${takes}`.padStart(10, "0"), unreported, bannedUntilMs };
}

/** The meter after so many requests at once. */
function after(requests: number, limits: Limits): Meter {
  let meter = UNUSED_METER;
  for (let request = 0; request < requests; request += 1)
    ({ meter } = decide(meter, limits, take(), Date.now()));
  return meter;
}

it("what is reported counts in the minute that it fell into, to the millisecond", () => {
  const minuteMs = Date.UTC(2026, 10, 20, 12, 34);
  const unreported = [
    { id: "before0000", atMs: minuteMs - 1 },
    { id: "within0000", atMs: minuteMs },
  ];
  const { windows } = decide(UNUSED_METER, FREE, take(unreported), Date.now()).verdict;
  expect(windows.map(({ used }) => used)).toEqual([2, 3]);
});

it("a take that was reported is known as one that was let in, should it come late", () => {
  const late = take();
  const { meter } = decide(UNUSED_METER, FREE, take([{ id: late.id, atMs: Date.now() }]), Date.now());
  const again = decide(meter, FREE, late, Date.now());
  expect([again.verdict.admitted, again.meter]).toEqual([true, meter]);
});

it("a take that was refused here, and let in by an isolate that could not know, counts", () => {
  const limits = { minute: 1, day: 9 };
  const refused = take();
  const { meter } = decide(after(1, limits), limits, refused, Date.now());
  const report = take([{ id: refused.id, atMs: Date.now() }]);
  const { windows } = decide(meter, limits, report, Date.now()).meter;
  expect(windows.map(({ used }) => used)).toEqual([2, 2]);
});

it("what is reported during a ban counts", () => {
  const limits = { minute: 1, day: 9 };
  const banned = after(1 + 61, limits);
  const { verdict, meter } = decide(
    banned,
    limits,
    take([{ id: "elsewhere0", atMs: Date.now() }]),
    Date.now(),
  );
  expect(verdict.bannedUntilMs).toBe(Date.now() + 600_000);
  expect(meter.windows.map(({ used, refused }) => [used, refused])).toEqual([
    [2, 61],
    [2, 61],
  ]);
});

it("a ban that was decided elsewhere holds from then on, and makes no other one shorter", () => {
  const untilMs = Date.now() + 60_000;
  const { verdict, meter } = decide(UNUSED_METER, FREE, take([], untilMs), Date.now());
  expect([verdict.admitted, verdict.bannedUntilMs]).toEqual([false, untilMs]);
  expect(decide(meter, FREE, take([], untilMs - 1), Date.now()).meter).toBe(meter);
  expect(decide(meter, FREE, take(), untilMs).verdict.admitted).toBe(true);
});

it("nobody who is let in is banned, though a smaller plan tolerates fewer refusals", () => {
  const { verdict } = decide(after(1 + 100, { minute: 100, day: 1 }), FREE, take(), Date.now());
  expect([verdict.admitted, verdict.bannedUntilMs]).toEqual([true, undefined]);
});

it("a take of many requests that an object of an earlier version has counted as one is answered for that one", () => {
  const id = "0123456789";
  const meter = { ...UNUSED_METER, recentTakes: `+${id}` };
  const many = { id, requests: 50, unreported: [], bannedUntilMs: 0 };
  const { verdict } = decide(meter, FREE, many, Date.now());
  // Nothing is said of the others: they ask again.
  expect([verdict.admitted, verdict.admissions]).toEqual([true, undefined]);
  const report = { ...take(), unreported: [{ id, atMs: Date.now(), requests: 5 }] };
  expect(decide(meter, FREE, report, Date.now()).verdict.windows.map(({ used }) => used)).toEqual([5, 5]);
});

it("a take of two requests of which such an object has counted one is answered so too, with the windows", () => {
  const several = { ...take(), requests: 2 };
  const earlier = { ...after(1, FREE), recentTakes: `+${several.id}` };
  const { verdict } = decide(earlier, FREE, several, Date.now());
  expect([verdict.admitted, verdict.admissions, verdict.windows.length]).toEqual([true, undefined, 2]);
});

it("a ban that an isolate reports whose clock is days ahead is no longer than any other", () => {
  const { meter } = decide(UNUSED_METER, FREE, take([], Date.now() + 3 * 86_400_000), Date.now());
  expect(meter.bannedUntilMs).toBe(Date.now() + 600_000);
});

const LIMITS = { minute: 2, day: 99 };

/** When the minute that follows begins. */
const NEXT_MINUTE_MS = Date.UTC(2026, 10, 20, 12, 35);

it("a refusal that is asked again counts once in its minute, and is decided anew in the next", () => {
  const refused = take();
  const { meter } = decide(after(2, LIMITS), LIMITS, refused, Date.now());
  const again = decide(meter, LIMITS, refused, Date.now());
  expect([again.verdict.admitted, again.verdict.admissions, again.meter]).toEqual([false, 0, meter]);
  const later = decide(meter, LIMITS, refused, NEXT_MINUTE_MS).verdict;
  expect([later.admitted, later.admissions]).toEqual([true, 1]);
});

it("a take that was let in in part gets the same answer again", () => {
  const several = { ...take(), requests: 5 };
  const { verdict, meter } = decide(UNUSED_METER, LIMITS, several, Date.now());
  expect(decide(meter, LIMITS, several, Date.now())).toEqual({ verdict, meter });
  expect(verdict).toMatchObject({ admitted: false, admissions: 2 });
});

it("each request of a take that is refused counts as refused", () => {
  const { windows } = decide(after(2, LIMITS), LIMITS, { ...take(), requests: 5 }, Date.now()).meter;
  expect(windows.map(({ refused }) => refused)).toEqual([5, 5]);
});

it("a key that was refused too often for its new limit is banned by its next refusal, which counts alone", () => {
  const wide = { minute: 300, day: 9_999 };
  const { meter } = decide(after(300, wide), wide, { ...take(), requests: 200 }, Date.now());
  const banned = decide(meter, FREE, { ...take(), requests: 5 }, Date.now());
  expect(banned.verdict).toMatchObject({ admitted: false, bannedUntilMs: Date.now() + 600_000 });
  expect(banned.meter.windows.map(({ refused }) => refused)).toEqual([201, 201]);
});

it("each take that is asked again gets its own lease, whole if no time has passed", () => {
  const limits = { minute: 1_000, day: 10_000 };
  const wish = { size: 8, forMs: 800 };
  const [first, second] = [
    { ...take(), wish },
    { ...take(), wish },
  ];
  const { meter } = decide(decide(UNUSED_METER, limits, first, Date.now()).meter, limits, second, Date.now());
  expect(decide(meter, limits, second, Date.now()).verdict.lease).toMatchObject({
    id: second.id,
    forMs: 800,
  });
});

it("what is known already changes nothing if it is reported", () => {
  const known = take();
  const { meter } = decide(UNUSED_METER, FREE, known, Date.now());
  const report = { ...take([{ id: known.id, atMs: Date.now() }]), requests: 0 };
  expect(decide(meter, FREE, report, Date.now()).meter).toBe(meter);
});

it("a take that was refused here and reported later as let in is known as let in", () => {
  const limits = { minute: 1, day: 9 };
  const refused = take();
  const { meter } = decide(after(1, limits), limits, refused, Date.now());
  const { meter: told } = decide(meter, limits, take([{ id: refused.id, atMs: Date.now() }]), Date.now());
  expect(decide(told, limits, refused, Date.now()).verdict.admitted).toBe(true);
});

it("a lease is forgotten after a step of the clock back by more than it can come back in", () => {
  const limits = { minute: 1_000, day: 10_000 };
  const { meter } = decide(UNUSED_METER, limits, { ...take(), wish: { size: 8, forMs: 800 } }, Date.now());
  const leasesAt = (atMs: number) =>
    decide(meter, limits, { ...take(), requests: 0 }, atMs).meter.leases.length;
  expect([leasesAt(Date.now() - 9_999), leasesAt(Date.now() - 10_000)]).toEqual([1, 0]);
});

it("what is remembered of takes can be read by an object of an earlier version, which looks at the sign", () => {
  const limits = { minute: 2, day: 99 };
  const ids = ["letinwhole", "letinpart1", "refused001", "askedlease"];
  const requests = [1, 3, 1, 0];
  let meter = UNUSED_METER;
  for (const [index, id] of ids.entries()) {
    const asked = {
      ...take(),
      id,
      requests: requests[index] ?? 0,
      wish: { size: index === 3 ? 8 : 0, forMs: 800 },
    };
    ({ meter } = decide(meter, limits, asked, Date.now()));
  }
  expect(meter.recentTakes).toBe("+letinwhole+letinpart1=1-refused001+askedlease=0");
});

it("the outcomes of the latest 256 takes are remembered", () => {
  const limits = { minute: 1_000, day: 10_000 };
  const first = take();
  let { meter } = decide(UNUSED_METER, limits, first, Date.now());
  for (let request = 0; request < 255; request += 1) ({ meter } = decide(meter, limits, take(), Date.now()));
  expect(decide(meter, limits, first, Date.now()).meter).toBe(meter);
  ({ meter } = decide(meter, limits, take(), Date.now()));
  expect(meter.recentTakes).toHaveLength(256 * 11);
  expect(decide(meter, limits, first, Date.now()).meter).not.toBe(meter);
});
