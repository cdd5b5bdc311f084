// The lookup throttle: which look-ups wait for a slot, and which are refused.

import { describe, expect, it, vi } from "vitest";
import { LookupThrottle, type NoSlot } from "../../src/keys/lookup-throttle.ts";

const ADDRESS = "198.18.0.1";
const never = () => new Promise<never>(() => {});

/** Lets a request that waits for a slot look for one a few times. */
async function somePolls(): Promise<void> {
  for (let turn = 0; turn < 10; turn += 1) await scheduler.wait(1);
}

/** A throttle with so many look-ups of one address that do not end. */
function newThrottle(lookUps: number): LookupThrottle {
  const throttle = new LookupThrottle();
  for (let lookUp = 0; lookUp < lookUps; lookUp += 1) void throttle.run([ADDRESS], Date.now(), never);
  return throttle;
}

/** Why a look-up had no slot. */
async function noSlot(lookUp: Promise<unknown>): Promise<NoSlot> {
  const error = await lookUp.then(
    () => undefined,
    (reason) => reason,
  );
  expect(error).toMatchObject({ name: "NoSlot", buckets: [ADDRESS] });
  return error;
}

describe("a look-up beside sixty of the same address", () => {
  it("waits until one of them ends, whatever that finds", async () => {
    // It does not give up: no timer ends.
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    const throttle = newThrottle(59);
    const { promise: found, resolve: find } = Promise.withResolvers<number>();
    const first = throttle.run([ADDRESS], Date.now(), () => found);
    const look = vi.fn(async () => 2);
    const last = throttle.run([ADDRESS], Date.now(), look);
    await somePolls();
    expect(look).not.toHaveBeenCalled();
    find(1);
    expect([await first, await last]).toEqual([1, 2]);
  });

  it("of another address does not wait", async () => {
    expect(await newThrottle(60).run(["198.18.0.2"], Date.now(), async () => 1)).toBe(1);
  });

  it("takes the slot of one that was cut off, after 12 s", async () => {
    const throttle = newThrottle(60);
    const nowMs = Date.now();
    const look = vi.fn(async () => 1);
    const last = throttle.run([ADDRESS], nowMs, look);
    vi.setSystemTime(nowMs + 11_999);
    await somePolls();
    expect(look).not.toHaveBeenCalled();
    vi.setSystemTime(nowMs + 12_000);
    expect(await last).toBe(1);
  });

  it("takes the slot of one that seems to have begun 12 s later, after the clock has stepped back", async () => {
    const throttle = newThrottle(60);
    const nowMs = Date.now() - 12_000;
    vi.setSystemTime(nowMs);
    expect(await throttle.run([ADDRESS], nowMs, async () => 1)).toBe(1);
  });

  it("is refused as soon as all of them turn out to be of unknown keys", async () => {
    // It does not give up: no timer ends.
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    const throttle = new LookupThrottle();
    const { promise: nothing, resolve: end } = Promise.withResolvers<null>();
    for (let lookUp = 0; lookUp < 60; lookUp += 1) void throttle.run([ADDRESS], Date.now(), () => nothing);
    const look = vi.fn(never);
    const last = throttle.run([ADDRESS], Date.now(), look);
    end(null);
    expect((await noSlot(last)).refusal).toMatchObject({ admitted: false });
    expect(look).not.toHaveBeenCalled();
  });

  it("gives up after 2 s, and does not count as an unknown key", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    const look = vi.fn(never);
    let isOver = false;
    const last = noSlot(newThrottle(60).run([ADDRESS], Date.now(), look)).finally(() => {
      isOver = true;
    });
    vi.advanceTimersByTime(1_999);
    await somePolls();
    expect(isOver).toBe(false);
    vi.advanceTimersByTime(1);
    const error = await last;
    expect(error.refusal).toBeUndefined();
    expect(look).not.toHaveBeenCalled();
    // A request that came later, and waited for the same look-up, has two seconds of its own.
    expect(error.appliesTo([ADDRESS], Date.now() + 1)).toBe(false);
    vi.setSystemTime(Date.now() + 2_001);
    expect(error.appliesTo([ADDRESS], Date.now() - 2_000)).toBe(true);
  });
});

it.each([1, 2, 60])("the end of one of %i look-ups frees one slot", async (begun) => {
  const throttle = newThrottle(begun - 1);
  const { promise: found, resolve: find } = Promise.withResolvers<number>();
  const first = throttle.run([ADDRESS], Date.now(), () => found);
  find(1);
  await first;
  const look = vi.fn(never);
  for (let lookUp = begun - 1; lookUp < 61; lookUp += 1) void throttle.run([ADDRESS], Date.now(), look);
  await somePolls();
  expect(look).toHaveBeenCalledTimes(61 - begun);
});

it("a look-up that ends after it counted as cut off frees no other slot", async () => {
  const throttle = new LookupThrottle();
  const { promise: late, resolve: end } = Promise.withResolvers<number>();
  const first = throttle.run([ADDRESS], Date.now(), () => late);
  vi.setSystemTime(Date.now() + 12_000);
  for (let lookUp = 0; lookUp < 60; lookUp += 1) void throttle.run([ADDRESS], Date.now(), never);
  end(1);
  await first;
  const look = vi.fn(never);
  void throttle.run([ADDRESS], Date.now(), look);
  await somePolls();
  expect(look).not.toHaveBeenCalled();
});

it("a look-up that fails does not count as an unknown key, and frees its slot", async () => {
  const throttle = new LookupThrottle();
  for (let lookUp = 0; lookUp < 100; lookUp += 1) {
    const failing = throttle.run([ADDRESS], Date.now(), () => Promise.reject(new Error("out of order")));
    await expect(failing).rejects.toThrow("out of order");
  }
  expect(await throttle.run([ADDRESS], Date.now(), async () => 1)).toBe(1);
});
