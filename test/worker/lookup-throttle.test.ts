import { describe, expect, it, vi } from "vitest";
import { Guesses } from "../../src/keys/lookup-throttle.ts";

const never = () => new Promise<never>(() => {});

/** Lets whoever waits for a place look for one a few times. */
async function someLooks(): Promise<void> {
  for (let look = 0; look < 10; look += 1) await scheduler.wait(1);
}

/** Sixty look-ups of one address that do not end, so that there is no place for another. */
function full(): Guesses {
  const guesses = new Guesses();
  for (let lookUp = 0; lookUp < 60; lookUp += 1) void guesses.lookUp(["198.18.0.1"], Date.now(), never);
  return guesses;
}

describe("when an address has sixty look-ups under way, another", () => {
  it("waits until one is over, whatever it finds", async () => {
    // Not until it has waited for long: no timer ends.
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    const { promise: found, resolve: find } = Promise.withResolvers<{ key: number }>();
    const guesses = new Guesses();
    const first = guesses.lookUp(["198.18.0.1"], Date.now(), () => found);
    for (let lookUp = 1; lookUp < 60; lookUp += 1) void guesses.lookUp(["198.18.0.1"], Date.now(), never);
    const look = vi.fn(async () => ({ key: 2 }));
    const last = guesses.lookUp(["198.18.0.1"], Date.now(), look);
    await someLooks();
    expect(look).not.toHaveBeenCalled();
    find({ key: 1 });
    expect([await first, await last]).toEqual([{ key: 1 }, { key: 2 }]);
  });

  it("does not wait for those of another address", async () => {
    expect(await full().lookUp(["198.18.0.2"], Date.now(), async () => ({ key: 1 }))).toEqual({ key: 1 });
  });

  it("takes the place of one that was cut off, after 12 seconds", async () => {
    const guesses = full();
    const nowMs = Date.now();
    const look = vi.fn(async () => ({ key: 1 }));
    const last = guesses.lookUp(["198.18.0.1"], nowMs, look);
    vi.setSystemTime(nowMs + 11_999);
    await someLooks();
    expect(look).not.toHaveBeenCalled();
    vi.setSystemTime(nowMs + 12_000);
    expect(await last).toEqual({ key: 1 });
  });

  it("takes the place of one that seems to have begun 12 seconds later, after the clock was set back", async () => {
    const guesses = full();
    const nowMs = Date.now() - 12_000;
    vi.setSystemTime(nowMs);
    expect(await guesses.lookUp(["198.18.0.1"], nowMs, async () => ({ key: 1 }))).toEqual({ key: 1 });
  });

  it("is given up as soon as all of those turn out to be guesses", async () => {
    // No timer ends: it is not given up because it has waited for long.
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    const guesses = new Guesses();
    const { promise: nothing, resolve: end } = Promise.withResolvers<{ key: undefined }>();
    for (let lookUp = 0; lookUp < 60; lookUp += 1) {
      void guesses.lookUp(["198.18.0.1"], Date.now(), () => nothing);
    }
    const look = vi.fn(never);
    const last = guesses.lookUp(["198.18.0.1"], Date.now(), look);
    end({ key: undefined });
    expect(await last).toBeUndefined();
    expect(look).not.toHaveBeenCalled();
  });

  it("is given up after 2 seconds, and is no guess", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    const guesses = full();
    const look = vi.fn(never);
    let isOver = false;
    const last = guesses.lookUp(["198.18.0.1"], Date.now(), look).finally(() => {
      isOver = true;
    });
    vi.advanceTimersByTime(1_999);
    await someLooks();
    expect(isOver).toBe(false);
    vi.advanceTimersByTime(1);
    expect(await last).toBeUndefined();
    expect(look).not.toHaveBeenCalled();
    expect(guesses.areUsedUp(["198.18.0.1"], Date.now())).toBe(false);
  });
});

it.each([1, 2, 60])("one of %i look-ups that ends frees its own place and no other", async (begun) => {
  const guesses = new Guesses();
  const { promise: found, resolve: find } = Promise.withResolvers<{ key: number }>();
  const first = guesses.lookUp(["198.18.0.1"], Date.now(), () => found);
  for (let lookUp = 1; lookUp < begun; lookUp += 1) void guesses.lookUp(["198.18.0.1"], Date.now(), never);
  find({ key: 1 });
  await first;
  const look = vi.fn(never);
  for (let lookUp = begun - 1; lookUp < 61; lookUp += 1)
    void guesses.lookUp(["198.18.0.1"], Date.now(), look);
  await someLooks();
  expect(look).toHaveBeenCalledTimes(61 - begun);
});

it("a look-up that ends after its time is over frees no other's place", async () => {
  const guesses = new Guesses();
  const { promise: late, resolve: end } = Promise.withResolvers<{ key: number }>();
  const first = guesses.lookUp(["198.18.0.1"], Date.now(), () => late);
  vi.setSystemTime(Date.now() + 12_000);
  for (let lookUp = 0; lookUp < 60; lookUp += 1) void guesses.lookUp(["198.18.0.1"], Date.now(), never);
  end({ key: 1 });
  await first;
  const look = vi.fn(never);
  void guesses.lookUp(["198.18.0.1"], Date.now(), look);
  await someLooks();
  expect(look).not.toHaveBeenCalled();
});

it("a look-up that fails is no guess, and frees its place", async () => {
  const guesses = new Guesses();
  for (let lookUp = 0; lookUp < 100; lookUp += 1) {
    const failing = guesses.lookUp(["198.18.0.1"], Date.now(), () =>
      Promise.reject(new Error("out of order")),
    );
    await expect(failing).rejects.toThrow("out of order");
  }
  expect(await guesses.lookUp(["198.18.0.1"], Date.now(), async () => ({ key: 1 }))).toEqual({ key: 1 });
});
