// The limiter client of one key against the real object: with leases, full windows, failing calls and clock skew.

import { describe, expect, it } from "vitest";
import { PLAN_LIMITS } from "../../src/keys/plans.ts";
import { BAN_MS } from "../../src/limits/object/bans.ts";
import { ours } from "../support/key-record.ts";
import {
  admissions,
  END,
  type Handler,
  hangs,
  isOverloaded,
  longest,
  newService,
  type Service,
  START_MS,
  works,
} from "../support/key-service.ts";

/** The time of a message. */
const TRIP_MS = 50;

const { free, pro } = PLAN_LIMITS;

const answerIsLost: Handler = async (message) => {
  await message.deliver();
  message.fail(new Error("lost"));
};

/** Another isolate sends eight requests from `fromMs` on. The last one renews its lease, which it holds unused from 1,400 to 3,300 ms later. */
function newHolder({ newIsolate, at, burst }: Service, fromMs = 0) {
  const holder = newIsolate();
  void burst(6, fromMs, holder);
  for (const ms of [500, 1_300]) void at(fromMs + ms, holder);
  return holder;
}

describe("with a lease", () => {
  it("no request waits for a renewal, and there are few calls", async () => {
    const { sent, every, run } = newService({ minute: 10_000, day: 100_000 });
    const [early, late] = [every(20, 0, 4_000), every(20, 4_000, 20_000)];
    await run(END);
    await Promise.all(early);
    expect(longest(await Promise.all(late))).toBe(0);
    const renewals = sent().filter((atMs) => atMs >= 4_000 && atMs < 20_000).length;
    expect([renewals >= 8, renewals <= 14]).toEqual([true, true]);
  });

  it("waiting requests are served from it when it arrives, without another call", async () => {
    const { sent, at, run } = newService(pro);
    const requests = [0, 20, 40, 60, 80, 120, 150].map((ms) => at(ms));
    const waitedMs = (await run(500, ...requests)).map((each) => each.waitedMs);
    expect(waitedMs).toEqual([100, 180, 160, 140, 120, 80, 50]);
    expect(sent()).toEqual([0, 100]);
  });

  it("that ends with its minute is reported by the next request or after a second, but at once if the day is nearly used up", async () => {
    const afterEnd = async (nextMs: number, day = 10_000) => {
      const { every, at, run, sent, world } = newService({ minute: 150, day });
      // Too early to renew the lease that ends with the minute.
      void every(100, 53_500, 57_500);
      void at(nextMs);
      await run(64_000);
      const calls = sent().filter((atMs) => atMs > 57_900 && atMs < 60_000);
      return { calls, used: ours(world.usage().status.windows).day.used };
    };
    expect(await afterEnd(58_200)).toEqual({ calls: [58_200], used: 41 });
    expect(await afterEnd(65_000)).toEqual({ calls: [58_945], used: 40 });
    expect(await afterEnd(65_000, 180)).toEqual({ calls: [57_945], used: 40 });
  });

  it("each response shows one request more as used, also while calls fail and when a minute begins", async () => {
    const { network, every, run } = newService(pro);
    const requests = every(30, 55_000, 61_000);
    await run(56_000);
    network.handle = isOverloaded;
    await run(57_000);
    network.handle = works;
    const used = (await run(62_000, ...requests)).map(({ decision }) => ours(decision.windows).minute.used);
    const counts = (length: number) => Array.from({ length }, (_, index) => index + 1);
    const first = used.lastIndexOf(1);
    expect(used).toEqual([...counts(first), ...counts(200 - first)]);
    expect(Math.abs(first - 100)).toBeLessThan(5);
  });
});

describe("a call", () => {
  it("whose answer is lost at the end of a minute refuses no request that has room in the next one", async () => {
    const { network, world, at, burst, run } = newService({ minute: 3, day: 9 });
    void at(57_700);
    // They wait for the first call.
    const waiting = burst(3, 57_750);
    await run(57_760);
    network.handle = (message, answer) => (message.isRetry ? answer() : answerIsLost(message, answer));
    // The minute ends at 58,000 ms, and the call is repeated after 250 ms.
    expect(admissions(await run(END, ...waiting))).toBe(3);
    expect(world.usage().days).toMatchObject([{ admitted: 4, refusedBy: { minute: 0 } }]);
  });

  it.each([0, 0.9])(
    "is repeated when there is just time for a call, and not under way then, whatever the pauses before were (%f)",
    async (random) => {
      const service = newService(pro, { random: () => random });
      const holder = newHolder(service);
      await service.run(1_000);
      service.network.tripMs = 150;
      const requests = [...service.burst(290, 1_100), service.at(1_500)];
      await service.run(1_500);
      service.world.end(holder);
      // Its lease stays outstanding for longer than requests wait.
      expect(longest(await service.run(END, ...requests))).toBeGreaterThan(4_600);
      const isAsked = (endMs: number) => service.sent().some((atMs) => atMs >= endMs - 100 && atMs <= endMs);
      expect([5_700, 6_100].map(isAsked)).toEqual([true, true]);
    },
  );

  it("is repeated at another time than that of other isolates that wait", async () => {
    const numbers = [0.1, 0.9];
    const service = newService(pro, { random: () => numbers.reverse()[0] ?? 0 });
    newHolder(service);
    const isolates = [service.newIsolate(), service.newIsolate()];
    for (const each of isolates) void service.burst(297, 2_000, each);
    await service.run(4_000);
    const [first, second] = isolates.map((each) => service.sent(each)[2] ?? 0);
    expect(Math.abs((first ?? 0) - (second ?? 0))).toBeGreaterThan(10);
  });
});

describe("while a window is full", () => {
  it("requests are refused without a call, and counted by a report within a second", async () => {
    const { world, burst, every, run, sent, counted } = newService({ minute: 3, day: 9 });
    const refused = () => world.usage().days[0]?.refusedBy.minute;
    void burst(4, 0);
    const requests = every(10, 300, 3_300);
    await run(1_500);
    expect(refused()).toBeGreaterThan(90);
    expect(longest(await run(3_300, ...requests))).toBe(0);
    expect(sent().filter((atMs) => atMs > 200).length).toBeLessThanOrEqual(3);
    await run(4_500);
    expect([counted().used, refused()]).toEqual([3, 301]);
  });
});

it("requests that have waited until long after the minute's first refusal lead to no ban", async () => {
  const service = newService(free);
  const { world, newIsolate, burst, run } = service;
  const [first, herd] = [newIsolate(), newIsolate()];
  const holder = newHolder(service, 50_100);
  void burst(70, 51_350, first);
  await run(51_900);
  world.end(holder);
  // In the last 5 s of the minute all of them wait for the lost lease, until it is given up.
  const decided = await run(END, ...burst(400, 53_900, herd));
  expect(admissions(decided)).toBeLessThan(60);
  expect(Math.min(...decided.map(({ waitedMs }) => waitedMs))).toBeGreaterThan(2_000);
  expect(world.counts.bans).toBe(0);
});

it("refusals of an isolate by itself lead to a ban from 7 s after the first on, and then it refuses without calls", async () => {
  const { world, burst, every, run, sent } = newService(free);
  void burst(61, 0);
  // The first refusal is at 50 ms. Reports have those of a second, which count if the first of them does.
  const decided = await run(12_000, ...every(10, 2_000, 12_000));
  const first = decided.findIndex(({ decision }) => decision.bannedUntilMs !== undefined);
  const beganMs = 2_000 + 10 * first;
  expect([beganMs > 7_050 + 1_800, beganMs < 7_050 + 1_800 + 2_500]).toEqual([true, true]);
  expect(world.usage().status.bannedUntilMs).toBeLessThanOrEqual(START_MS + 11_000 + BAN_MS);
  // A report of the refusals before it may follow.
  expect(sent().filter((atMs) => atMs > beganMs).length).toBeLessThanOrEqual(1);
});

describe("while the object can't be reached", () => {
  it.each<[string, Handler]>([
    ["fails calls", (message) => message.fail(new Error("away"))],
    ["is overloaded", isOverloaded],
    ["hangs", hangs],
    ["executes calls, but its answers are lost", answerIsLost],
  ])("one isolate admits exactly the limit of each minute, if the object %s", async (_, handle) => {
    const { network, world, at, every, run } = newService(pro);
    void at(0);
    await run(1_000);
    network.handle = (message, answer) => world.time.after(TRIP_MS, () => handle(message, answer));
    const decided = await run(150_000, ...every(150, 1_000, 120_000));
    network.handle = works;
    await run(END, at(150_000));
    const minutes = Map.groupBy(decided, ({ decision }) => ours(decision.windows).minute.startMs);
    const admitted = [...minutes.values()].map((each) => admissions(each));
    expect(admitted.slice(0, 2)).toEqual([299, 300]);
  });

  it("local admissions count in their own windows, also after a status without them", async () => {
    const { network, world, isolate, at, run } = newService({ minute: 4, day: 12 });
    void at(0);
    await run(1_000);
    network.handle = isOverloaded;
    const requests = [57_990, 57_990, 57_990, 58_060, 58_060, 58_060, 58_070, 58_080].map((ms) => at(ms));
    await run(58_065);
    isolate.port.learnStatus(world.usage().status, START_MS + 58_065);
    const decisions = (await run(60_000, ...requests)).map(({ decision }) => decision);
    expect(decisions.slice(-2).map(({ admitted }) => admitted)).toEqual([true, false]);
    expect(decisions.at(-2)?.windows).toMatchObject({ minute: { used: 4 }, day: { used: 8 } });
  });
});
