// The copy of a key in its object: when it is read, how long an isolate may use it, and what happens while the database fails.

import { beforeEach, describe, expect, it, vi } from "vitest";
import { KEY_POLICY, type Key } from "../../src/keys/key.ts";
import { RUNTIME } from "../../src/lib/workers-runtime.ts";
import { KeyReader, type ReadKey } from "../../src/limits/object/key-reader.ts";
import { hasSecret } from "../../src/limits/policy.ts";
import { keyOf } from "../support/key-record.ts";

const START_MS = Date.UTC(2026, 10, 20, 12, 34, 20);

beforeEach(() => void vi.useFakeTimers({ now: START_MS }));

const keyWith = (...hashes: string[]) => keyOf(hashes, { minute: 60, day: 1_000 });

/** A reader of a database whose reads take 100 ms, fail or hang. All times count from START_MS. */
function newReader(stored?: ReadKey<Key>) {
  const database = { key: keyWith("a") as Key | null, fault: "" };
  const reads: number[] = [];
  const load = async () => {
    reads.push(Date.now() - START_MS);
    const { key } = database;
    if (database.fault === "hangs") return new Promise<never>(() => {});
    await RUNTIME.wait(100);
    if (database.fault === "fails") throw new Error("out of order");
    return key;
  };
  const [onFailure, onChange] = [vi.fn(), vi.fn()];
  const reader = new KeyReader(RUNTIME, stored, {
    ...{ load, onFailure, onChange },
    hasSecret: (key, hash) => hasSecret(KEY_POLICY, key, hash),
  });
  const set = (atMs: number, changed: Partial<typeof database>) =>
    setTimeout(() => Object.assign(database, changed), atMs);
  /** Asks at `atMs`. */
  const at = async (atMs: number, secret?: string, isPatient?: boolean) => {
    await RUNTIME.wait(atMs);
    const answer = await reader.answer(secret, isPatient);
    const afterMs = Date.now() - START_MS - atMs;
    if ("unavailable" in answer) return { afterMs, ...answer };
    const { key, ...rest } = answer;
    return { afterMs, ...rest, hashes: key?.secrets.map(({ hash }) => hash).join() };
  };
  return { reads, onFailure, onChange, set, at };
}

/** The answers to all. */
async function run(...asked: Promise<object>[]) {
  await vi.advanceTimersByTimeAsync(400_000);
  return Promise.all(asked);
}

describe("a key is read", () => {
  it("before the first answer, then in the background from 5 s on, and before an answer from 10 s on", async () => {
    const { reads, set, at } = newReader();
    set(1_000, { key: keyWith("b") });
    expect(await run(...[0, 4_999, 5_000, 5_200, 15_000].map((ms) => at(ms)))).toMatchObject([
      { afterMs: 100, loadMs: 100, hashes: "a", usableMs: 29_900, isNew: true },
      { afterMs: 0, hashes: "a", usableMs: 25_001, isNew: false },
      { afterMs: 0, hashes: "a" },
      { afterMs: 0, hashes: "b", usableMs: 29_800 },
      { afterMs: 100, loadMs: 100 },
    ]);
    expect(reads).toEqual([0, 5_000, 15_000]);
  });

  it("and is the same as the stored one if only the order of its fields differs: else each start of the object would store it", async () => {
    const { secrets, limits, ...others } = keyWith("a");
    const reversed = Object.fromEntries(Object.entries(limits).reverse()) as Key["limits"];
    const readMs = START_MS - 60_000;
    const same = newReader({ key: { secrets, limits: reversed, ...others }, readMs });
    const changed = newReader({ key: { ...keyWith("a"), access: "read" }, readMs });
    await run(same.at(0), changed.at(0));
    const changes = [same, changed].map(({ onChange }) => onChange.mock.calls.length);
    expect([same.reads, changes]).toEqual([[0], [0, 1]]);
  });

  it("not at once if the object has slept for a short time, but if the clock has stepped back, because its age is unknown", async () => {
    const slept = newReader({ key: keyWith("stored"), readMs: START_MS - 4_000 });
    const stepped = newReader({ key: keyWith("stored"), readMs: START_MS + 1 });
    const [answer] = await run(slept.at(0), stepped.at(0));
    expect(answer).toMatchObject({ afterMs: 0, hashes: "stored", usableMs: 26_000 });
    expect([slept.reads, stepped.reads]).toEqual([[], [0]]);
  });

  it("once in 10 s if the key does not exist, which is the answer for each secret", async () => {
    const { reads, set, at } = newReader();
    set(0, { key: null });
    const [, answer] = await run(at(1, "a"), at(4_900, "b"), at(10_001, "b"));
    expect([answer, reads]).toMatchObject([{ afterMs: 0, hashes: undefined, isNew: true }, [1, 10_001]]);
  });
});

describe("for a secret that the key lacks", () => {
  it("it is read once a second: a patient call waits, another one learns that the key is not new", async () => {
    const { reads, set, at } = newReader();
    set(150, { key: keyWith("b", "a") });
    const patient = ["b", "y", "z"].map((secret) => at(300, secret, true));
    const [, impatient, ...others] = await run(at(0, "x"), at(200, "b"), ...patient);
    expect(impatient).toMatchObject({ afterMs: 0, hashes: "a", isNew: false });
    expect(others).toMatchObject(Array(3).fill({ afterMs: 800, loadMs: 100, hashes: "b,a", isNew: true }));
    expect(reads).toEqual([0, 1_000]);
  });

  it("a read under way does not count, because it may have missed the secret", async () => {
    const { reads, set, at } = newReader();
    // While a read in the background is under way.
    set(6_005, { key: keyWith("b") });
    const [, , answer] = await run(at(0), at(6_000), at(6_010, "b", true));
    expect([reads, answer]).toMatchObject([[0, 6_000, 7_000], { hashes: "b", isNew: true }]);
  });

  it("it is read again after a failed read, once in 5 s", async () => {
    const { reads, set, at } = newReader();
    set(1_000, { fault: "fails" });
    set(3_000, { fault: "", key: keyWith("b") });
    const asked = [at(2_000, "b"), at(7_000, "b"), at(7_200, "b"), at(7_400, "c")];
    const [, , tooSoon, again, other] = await run(at(0), ...asked);
    expect(tooSoon).toMatchObject({ unavailable: "Error: out of order" });
    expect([reads, again]).toMatchObject([[0, 2_000, 7_200], { hashes: "b", isNew: true }]);
    // From then on once a second, as before.
    expect(other).toMatchObject({ afterMs: 0, isNew: false });
  });
});

describe.each([
  ["fails", 100, "out of order"],
  ["hangs", 2_000, "did not answer"],
])("while the database %s", (fault, waitMs, message) => {
  const failure = { unavailable: expect.stringContaining(message) };

  it("the key is used for 5 minutes more, and read once in 5 s", async () => {
    const { reads, onFailure, set, at } = newReader();
    set(5_000, { fault });
    const secret = at(13_000, "unknown", true);
    const later = [10_000, 12_500, 309_000, 316_000].map((ms) => at(ms));
    expect(await run(at(0), secret, ...later)).toMatchObject([
      { afterMs: 100 },
      // The key can't tell whether a secret is new.
      failure,
      { afterMs: waitMs, hashes: "a", usableMs: 5_000, isNew: false },
      // No call waits for the database meanwhile.
      { afterMs: 0, usableMs: 5_000 },
      fault === "fails" ? { hashes: "a", usableMs: 900 } : failure,
      failure,
    ]);
    expect([reads, onFailure.mock.calls.length]).toEqual([[0, 10_000, 309_000, 316_000], 3]);
  });

  it("calls get its error if there is no key, and it is read once in 5 s if it hangs", async () => {
    const { reads, set, at } = newReader();
    set(0, { fault });
    expect(await run(at(1), at(4_900))).toMatchObject([failure, failure]);
    expect(reads).toEqual(fault === "fails" ? [1, 4_900] : [1]);
  });
});
