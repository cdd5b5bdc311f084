// The limiter client of one key against the real object: with leases, failing calls, overtaken results and clock skew.

import { describe, expect, it } from "vitest";
import { headersOf } from "../../src/rate-limit/headers.ts";
import { PLAN_LIMITS } from "../../src/rate-limit/plans.ts";
import type { Limits } from "../../src/rate-limit/windows.ts";
import { type Message, World } from "../simulation/world.ts";

const START_MS = Date.UTC(2026, 10, 22, 12, 34, 2);

/** The default one-way delay of a message. */
const TRIP_MS = 50;

const { free, pro } = PLAN_LIMITS;

const OVERLOADED = Object.assign(new Error("too many requests"), { overloaded: true });

/** How the network handles a message. `answer` has the object execute it, and returns the result. */
type Handler = (message: Message, answer: () => void) => void;

const isOverloaded: Handler = (message) => message.fail(OVERLOADED);

type Request = Promise<{ decision: Awaited<ReturnType<World["request"]>>; waitedMs: number }>;

/** One isolate, its object, and a faulty network between them. All times count from START_MS. */
function newService(limits: Limits, aheadMs = 0) {
  const network = { tripMs: TRIP_MS, handle: ((_, answer) => answer()) as Handler };
  const messages: { method: string; atMs: number }[] = [];
  const answer = (message: Message, backMs = network.tripMs) =>
    world.time.after(network.tripMs, () => {
      const reply = message.deliver();
      world.persist();
      world.time.after(backMs, reply);
    });
  const send = (message: Message) => {
    messages.push({ method: message.method, atMs: world.time.nowMs - START_MS });
    network.handle(message, () => answer(message));
  };
  const world: World = new World({ startMs: START_MS, limits, send });
  const isolate = world.newIsolate(limits, aheadMs);
  /** Sends a request at `atMs`. */
  const at = (atMs: number, by = isolate): Request =>
    new Promise<void>((resolve) => world.time.after(START_MS + atMs - world.time.nowMs, resolve))
      .then(() => world.request(by))
      .then((decision) => ({ decision, waitedMs: world.time.nowMs - START_MS - atMs }));
  const burst = (times: number, atMs: number, by = isolate) =>
    Array.from({ length: times }, () => at(atMs, by));
  const every = (ms: number, fromMs: number, toMs: number) =>
    Array.from({ length: Math.ceil((toMs - fromMs) / ms) }, (_, index) => at(fromMs + index * ms));
  const runUntil = (atMs: number) => world.run(START_MS + atMs);
  /** The times at which messages of this method were sent. */
  const sent = (method: Message["method"]) =>
    messages.filter((each) => each.method === method).map(({ atMs }) => atMs);
  /** The object's count of this minute. */
  const used = () => world.usage().status.windows.minute.used;
  return { network, world, isolate, answer, at, burst, every, runUntil, sent, used };
}

describe("with a lease", () => {
  it("no request waits for a renewal", async () => {
    const { world, sent, every } = newService({ minute: 10_000, day: 100_000 });
    const [early, late] = [every(20, 0, 1_000), every(20, 1_000, 3_000)];
    await world.run();
    await Promise.all(early);
    expect((await Promise.all(late)).filter(({ waitedMs }) => waitedMs > 0)).toEqual([]);
    const renewals = sent("acquire").filter((atMs) => atMs > 1_000).length;
    expect([renewals > 0, renewals < 10]).toEqual([true, true]);
  });

  it("waiting requests are served from it when it arrives, without another call", async () => {
    const { world, sent, at } = newService(pro);
    // The second call is made at 100 ms, for two requests, and asks for a lease of four.
    const requests = [0, 30, 60, 120, 150, 180].map((ms) => at(ms));
    await world.run();
    const waitedMs = (await Promise.all(requests)).map((each) => each.waitedMs);
    expect(waitedMs).toEqual([100, 170, 140, 80, 50, 20]);
    expect(sent("acquire")).toEqual([0, 100]);
  });

  it("it ends when the object reports another minute because its clock has stepped", async () => {
    const { network, world, at, runUntil, sent, used } = newService(pro);
    network.tripMs = 10;
    // A lease of four from 60 to 260 ms, which is renewed at 165 ms.
    for (const ms of [0, 60, 165, 200]) void at(ms);
    await runUntil(90);
    world.objectAheadMs = 60_000;
    world.hasStepped = true;
    await world.run();
    expect(sent("acquire")).toContain(165);
    expect([used(), world.entry("minute", START_MS + 58_000).admitted]).toEqual([1, 1]);
  });
});

describe("a call", () => {
  it("is retried once, after 250 ms, and given up 2 s later", async () => {
    const { network, world, at, sent, used } = newService(pro);
    // The first call fails, the second hangs.
    network.handle = (message, answer) => {
      if (world.counts.calls > 2) answer();
      else if (world.counts.calls === 1) message.fail(new Error("out of order"));
    };
    const [request] = await Promise.all([at(0), world.run()]);
    expect([sent("acquire"), request.waitedMs]).toEqual([[0, 250], 2_250]);
    expect([request.decision.admitted, world.counts.local, used()]).toEqual([true, 1, 1]);
  });

  it("that fails also decides the requests that wait for the next call", async () => {
    const { network, world, at, runUntil, sent } = newService(pro);
    network.handle = (message) => world.time.after(100, () => message.fail(OVERLOADED));
    const requests = [0, 20, 40].map((ms) => at(ms));
    await runUntil(500);
    expect((await Promise.all(requests)).map(({ waitedMs }) => waitedMs)).toEqual([100, 80, 60]);
    expect(sent("acquire")).toEqual([0]);
  });

  it("of 100 requests counts them once if its result is lost", async () => {
    const { network, world, burst, used } = newService(pro);
    network.handle = (message, answer) => (world.counts.calls === 2 ? void message.deliver() : answer());
    void burst(100, 0);
    await world.run();
    expect(world.counts.local).toBe(99);
    expect(used()).toBe(100);
  });

  it("that leaves requests undecided is followed by another call after 100 ms", async () => {
    const { world, isolate, at, burst, sent } = newService(pro);
    // An unused lease of four, from 100 to 300 ms.
    for (const ms of [0, 60]) void at(ms, isolate);
    const requests = burst(298, 150, world.newIsolate(pro));
    await world.run();
    const decided = await Promise.all(requests);
    expect(decided.filter(({ decision }) => !decision.admitted)).toEqual([]);
    expect(sent("acquire")).toEqual([0, 100, 150, 250, 450]);
    // The admitted requests do not wait for the next call.
    expect(new Set(decided.map(({ waitedMs }) => waitedMs))).toEqual(new Set([100, 200, 400]));
  });

  it("reports how long its requests have waited, so that they count towards a ban by their arrival", async () => {
    const { world, burst } = newService({ minute: 1, day: 9 });
    // The first refusal is decided at 150 ms, and those of this batch at 2,250 ms.
    void burst(2, 0);
    void burst(2, 2_100);
    void burst(181, 2_120);
    await world.run();
    expect([world.counts.refused, world.counts.bans]).toEqual([184, 0]);
  });
});

describe("a release", () => {
  it("is retried after 1 and 3 s", async () => {
    const { network, world, at, sent, used } = newService(pro);
    let failures = 2;
    network.handle = (message, answer) => {
      if (message.method === "release" && failures-- > 0) message.fail(OVERLOADED);
      else answer();
    };
    // An unused lease of four, from 100 to 300 ms.
    for (const ms of [0, 60]) void at(ms);
    await world.run();
    expect(sent("release")).toEqual([300, 1_300, 4_300]);
    expect(used()).toBe(2);
  });
});

describe("while the object can't be reached", () => {
  /** Has decided a ban locally, which ends at 603,000 ms. */
  async function newBanned() {
    const service = newService(free);
    service.network.handle = isOverloaded;
    void service.burst(61, 300);
    void service.burst(181, 2_400);
    await service.runUntil(3_000);
    return { ...service, bannedUntilMs: START_MS + 603_000 };
  }

  it("a local ban refuses without calls and is reported once a second", async () => {
    const { network, world, isolate, every, sent, runUntil, bannedUntilMs } = await newBanned();
    const banned = every(10, 3_000, 8_000);
    const before = sent("release").length;
    await runUntil(8_000);
    // The object does not know the ban yet, so its status does not lift it.
    isolate.client.known.apply(free, world.usage().status);
    for (const { waitedMs, decision } of await Promise.all(banned))
      expect([waitedMs, decision.bannedUntilMs]).toEqual([0, bannedUntilMs]);
    expect(sent("acquire").filter((atMs) => atMs >= 3_000)).toEqual([]);
    // Three of them report the admissions.
    expect(sent("release").length - before).toBeLessThanOrEqual(5 + 3);

    network.handle = (_, answer) => answer();
    void every(10, 12_000, 15_000);
    await runUntil(15_000);
    // The object knows the ban and the admissions before it.
    expect(sent("release").filter((atMs) => atMs >= 12_000)).toEqual([12_000]);
    expect(world.usage().status).toMatchObject({ bannedUntilMs, windows: { minute: { used: 60 } } });
  });

  it("a local ban that an operator lifts refuses no more, also if the object has heard of it", async () => {
    const { network, world, isolate, at, runUntil, bannedUntilMs } = await newBanned();
    network.handle = (_, answer) => answer();
    // An earlier ban.
    isolate.client.known.liftBans(bannedUntilMs - 1_000);
    void at(5_000);
    await runUntil(6_000);
    expect([world.usage().status.bannedUntilMs, world.recordedBans]).toEqual([bannedUntilMs, 1]);

    // The second is by an older look-up, of another secret of the key.
    for (const untilMs of [bannedUntilMs, 0]) isolate.client.known.liftBans(untilMs);
    // The object shows the ban until the next request.
    isolate.client.known.apply(free, world.usage().status);
    const [{ decision }] = await Promise.all([at(60_000), runUntil(61_000)]);
    expect([decision.admitted, world.usage().status.bannedUntilMs]).toEqual([true, undefined]);
  });

  it("local admissions count in their own windows, also after a status without them", async () => {
    const { network, world, isolate, at, runUntil } = newService({ minute: 3, day: 9 });
    network.handle = isOverloaded;
    const requests = [57_990, 57_990, 57_990, 58_000, 58_000, 58_030, 58_040].map((ms) => at(ms));
    await runUntil(58_020);
    isolate.client.known.apply(free, world.usage().status);
    await runUntil(58_050);
    const decisions = (await Promise.all(requests)).map(({ decision }) => decision);
    expect(decisions.slice(-2).map(({ admitted }) => admitted)).toEqual([true, false]);
    expect(decisions.at(-2)?.windows).toMatchObject({ minute: { used: 3 }, day: { used: 6 } });
  });

  it("requests that don't fit are refused, although another isolate holds a lease", async () => {
    const { network, world, at, burst, runUntil } = newService(pro);
    const other = world.newIsolate(pro);
    // An unused lease of four, from 100 to 300 ms.
    for (const ms of [0, 60]) void at(ms, other);
    void at(120);
    await runUntil(230);
    network.handle = (message) => world.time.after(1, () => message.fail(OVERLOADED));
    const [decided] = await Promise.all([Promise.all(burst(298, 240)), runUntil(3_000)]);
    expect(new Set(decided.map(({ waitedMs }) => waitedMs))).toEqual(new Set([1]));
    expect(decided.filter(({ decision }) => !decision.admitted)).toHaveLength(298 - (300 - 3 - 4));
  });

  it("the rest of a lease is not shown as used, also after its renewal has failed", async () => {
    const { network, at, runUntil } = newService(pro);
    const requests = [0, 60, 210, 220, 230].map((ms) => at(ms));
    await runUntil(205);
    network.handle = isOverloaded;
    await runUntil(400);
    const used = (await Promise.all(requests)).map(({ decision }) => decision.windows.minute.used);
    expect(used).toEqual([1, 2, 3, 4, 5]);
  });

  it("admissions during a report are in the next report", async () => {
    const { network, answer, at, runUntil, used } = newService(pro);
    network.handle = (message) =>
      message.method === "acquire" ? message.fail(OVERLOADED) : answer(message, 700);
    // The first report is under way from 1,000 to 1,750 ms.
    for (const ms of [0, 1_100]) void at(ms);
    await runUntil(3_000);
    expect(used()).toBe(2);
  });

  it("a ban that begins during a report is in the next report", async () => {
    const { network, world, answer, burst, runUntil } = newService(free);
    network.handle = isOverloaded;
    void burst(61, 300);
    await runUntil(4_000);
    network.handle = (message) =>
      message.method === "acquire" ? message.fail(OVERLOADED) : answer(message, 500);
    // The second report is under way from 4,300 to 4,850 ms.
    void burst(181, 4_500);
    await runUntil(5_600);
    expect(world.usage().status.bannedUntilMs).toBe(START_MS + 605_000);
  });

  it("a report is not delayed when the clock has stepped back", async () => {
    const { network, isolate, at, runUntil, used } = newService(pro);
    network.handle = isOverloaded;
    void at(30_000);
    await runUntil(35_000);
    isolate.aheadMs = -20_000;
    void at(36_000);
    await runUntil(36_500);
    network.handle = (_, answer) => answer();
    await runUntil(38_000);
    expect(used()).toBe(2);
  });

  it("the outbox keeps the latest 100 batches", async () => {
    const { network, at, every, runUntil, used } = newService(pro);
    network.handle = isOverloaded;
    void every(5, 0, 750);
    await runUntil(800);
    network.handle = (_, answer) => answer();
    void at(2_000);
    await runUntil(2_200);
    expect(used()).toBe(101);
  });
});

it("a cached ban is ignored after the clock has stepped back, because its end is unknown", async () => {
  const { world, isolate, at, burst, runUntil, sent } = newService({ minute: 1, day: 9 });
  void burst(2, 0);
  void burst(182, 2_200);
  void at(5_000);
  await runUntil(6_000);
  isolate.aheadMs = -10_000;
  const [{ decision }] = await Promise.all([at(7_000), world.run()]);
  expect(sent("acquire").filter((atMs) => atMs >= 5_000)).toEqual([7_000]);
  expect(decision.bannedUntilMs).toBe(START_MS + 603_000);
});

it("a status is dropped if a known one has a higher revision, or the same and a later time", () => {
  const { world, isolate } = newService(free);
  const { status } = world.usage();
  const known = [
    { revision: 0, atMs: 100 },
    { revision: 0, atMs: 50 },
    { revision: 0, atMs: 150 },
    { revision: 1, atMs: 20 },
    { revision: 0, atMs: 200 },
  ].map(({ revision, atMs }) => {
    isolate.client.known.apply(free, { ...status, revision, nowMs: START_MS + atMs });
    return isolate.client.known.peek(free).nowMs - START_MS;
  });
  expect(known).toEqual([100, 100, 150, 20, 20]);
});

it.each([
  ["in the previous minute", 57_400, 0],
  ["in the first millisecond of a minute", 57_850, 1],
])("the rest of a lease granted %s is not shown as used", async (_, atMs, used) => {
  const { network, world, isolate, at, runUntil } = newService(pro);
  network.handle = (message, answer) => (message.method === "release" ? message.fail(OVERLOADED) : answer());
  for (const ms of [atMs, atMs + 60]) void at(ms);
  await runUntil(58_100);
  const { windows } = isolate.client.known.apply(pro, world.usage().status);
  expect([world.counts.leases, windows.minute.used, windows.day.used]).toEqual([1, used, 2]);
});

it("with a slow clock, a client that waits for the Retry-After of a cached ban is not refused again", async () => {
  const { world, at, burst } = newService({ minute: 1, day: 9 }, -1_500);
  void burst(2, 0);
  void burst(182, 2_200);
  const [{ decision, waitedMs }] = await Promise.all([at(20_000), world.run()]);
  expect(waitedMs).toBe(0);
  const { bannedUntilMs = 0 } = world.usage().status;
  const retryMs = START_MS + 20_000 + 1_000 * Number(headersOf(decision)["Retry-After"]);
  expect(retryMs).toBeGreaterThanOrEqual(bannedUntilMs);
  expect(retryMs).toBeLessThan(bannedUntilMs + 1_000 + TRIP_MS);
});
