import { describe, expect, it, vi } from "vitest";
import { DatabaseUnavailable } from "../src/database.ts";
import { Guesses } from "../src/keys/guesses.ts";

const never = () => new Promise<never>(() => {});

/** Sixty look-ups of one address that do not end, so that there is no place for another. */
function full(): Guesses {
  const guesses = new Guesses();
  for (let lookUp = 0; lookUp < 60; lookUp += 1) void guesses.lookUp("198.18.0.1", Date.now(), never);
  return guesses;
}

describe("when an address has sixty look-ups under way, another", () => {
  it("waits until one is over, whatever it finds", async () => {
    const { promise: found, resolve: find } = Promise.withResolvers<{ value: number }>();
    const guesses = new Guesses();
    const first = guesses.lookUp("198.18.0.1", Date.now(), () => found);
    for (let lookUp = 1; lookUp < 60; lookUp += 1) void guesses.lookUp("198.18.0.1", Date.now(), never);
    const look = vi.fn(async () => ({ value: 2 }));
    const last = guesses.lookUp("198.18.0.1", Date.now(), look);
    await scheduler.wait(20);
    expect(look).not.toHaveBeenCalled();
    find({ value: 1 });
    expect([await first, await last]).toEqual([{ value: 1 }, { value: 2 }]);
  });

  it("does not wait for those of another address", async () => {
    expect(await full().lookUp("198.18.0.2", Date.now(), async () => ({ value: 1 }))).toEqual({ value: 1 });
  });

  it("takes the place of one that was cut off, after 12 seconds", async () => {
    const guesses = full();
    const nowMs = Date.now();
    const look = vi.fn(async () => ({ value: 1 }));
    const last = guesses.lookUp("198.18.0.1", nowMs, look);
    vi.setSystemTime(nowMs + 11_999);
    await scheduler.wait(20);
    expect(look).not.toHaveBeenCalled();
    vi.setSystemTime(nowMs + 12_000);
    expect(await last).toEqual({ value: 1 });
  });

  it("is given up after 5 seconds: the database is too slow", async () => {
    let waitedMs = 0;
    vi.spyOn(scheduler, "wait").mockImplementation(async (ms) => {
      waitedMs += ms;
    });
    const last = full().lookUp("198.18.0.1", Date.now(), never);
    await expect(last).rejects.toThrow(DatabaseUnavailable);
    expect(waitedMs).toBe(5_000);
  });
});

it("a look-up that fails is no guess, and frees its place", async () => {
  const guesses = new Guesses();
  for (let lookUp = 0; lookUp < 100; lookUp += 1) {
    const failing = guesses.lookUp("198.18.0.1", Date.now(), () => Promise.reject(new Error("out of order")));
    await expect(failing).rejects.toThrow("out of order");
  }
  expect(await guesses.lookUp("198.18.0.1", Date.now(), async () => ({ value: 1 }))).toEqual({ value: 1 });
});
