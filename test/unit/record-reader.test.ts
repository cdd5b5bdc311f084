// The record of a key in its object: when it is read, how long an isolate may use it, and what happens while the database fails.

import { beforeEach, describe, expect, it, vi } from "vitest";
import { type ReadRecord, RecordReader } from "../../src/keys/object/record-reader.ts";
import type { KeyRecord } from "../../src/keys/record.ts";
import { RUNTIME } from "../../src/lib/runtime.ts";

const START_MS = Date.UTC(2026, 10, 20, 12, 34, 20);

beforeEach(() => {
  vi.useFakeTimers({ now: START_MS });
  return () => vi.useRealTimers();
});

const keyWith = (...hashes: string[]): KeyRecord => ({
  id: "key_0123456789AB",
  plan: "free",
  limits: { minute: 60, day: 1_000 },
  expiresAtMs: null,
  revokedAtMs: null,
  bansLiftedUntilMs: 0,
  secrets: hashes.map((hash) => ({ hash, goodUntilMs: null })),
});

/** A reader of a database whose reads take `readMs`, fail or hang. */
function newReader(stored?: ReadRecord) {
  const database = { record: keyWith("a") as KeyRecord | null, readMs: 100, fault: "" };
  const reads: number[] = [];
  const changes: ReadRecord[] = [];
  const load = async () => {
    reads.push(Date.now() - START_MS);
    const { record } = database;
    if (database.fault === "hangs") return new Promise<never>(() => {});
    await RUNTIME.wait(database.readMs);
    if (database.fault === "fails") throw new Error("out of order");
    return record;
  };
  const failures: unknown[] = [];
  const reader = new RecordReader(RUNTIME, stored, {
    load,
    onChange: () => reader.latest && changes.push(reader.latest),
    onFailure: (error) => failures.push(error),
  });
  /** Asks at `atMs` after the start. */
  const ask = async (atMs: number, secret?: string, isPatient?: boolean) => {
    await vi.advanceTimersByTimeAsync(START_MS + atMs - Date.now());
    const answer = { afterMs: -1, hashes: "", usableMs: 0, isNew: false, error: "" };
    void reader.answer(secret, isPatient).then(
      ({ record, usableMs, isNew }) => {
        const hashes = record?.secrets.map(({ hash }) => hash).join() ?? "none";
        Object.assign(answer, { afterMs: Date.now() - START_MS - atMs, hashes, usableMs, isNew });
      },
      (error) => Object.assign(answer, { afterMs: Date.now() - START_MS - atMs, error: `${error}` }),
    );
    await vi.advanceTimersByTimeAsync(0);
    return answer;
  };
  return { database, reads, changes, failures, ask };
}

const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);

describe("a record is read", () => {
  it("before the first answer, then in the background from 5 s on, and before an answer from 10 s on", async () => {
    const { database, reads, ask } = newReader();
    const first = await ask(0);
    await pass(100);
    expect(first).toMatchObject({ afterMs: 100, usableMs: 29_900, isNew: true });
    database.record = keyWith("b");
    expect(await ask(4_999)).toMatchObject({ afterMs: 0, hashes: "a", usableMs: 25_001, isNew: false });
    expect(await ask(5_000)).toMatchObject({ afterMs: 0, hashes: "a" });
    expect(await ask(5_200)).toMatchObject({ afterMs: 0, hashes: "b", usableMs: 29_800 });
    const late = await ask(15_000);
    await pass(100);
    expect([late.afterMs, reads]).toEqual([100, [0, 5_000, 15_000]]);
  });

  it("once for all calls that wait for it", async () => {
    const { reads, ask } = newReader();
    const answers = [await ask(0), await ask(50)];
    await pass(100);
    expect([answers.map(({ afterMs }) => afterMs), reads]).toEqual([[100, 50], [0]]);
    // The second call had arrived when the read had begun.
    expect(answers.map(({ isNew }) => isNew)).toEqual([true, false]);
  });

  it("not at once if the object has slept for a short time", async () => {
    const { reads, ask } = newReader({ record: keyWith("stored"), readMs: START_MS - 4_000 });
    expect(await ask(0)).toMatchObject({ afterMs: 0, hashes: "stored", usableMs: 26_000 });
    expect(reads).toEqual([]);
  });

  it("again after the clock has stepped back, because its age is unknown", async () => {
    const { reads, ask } = newReader({ record: keyWith("stored"), readMs: START_MS + 1 });
    await ask(0);
    expect(reads).toEqual([0]);
  });

  it("and handed on if it differs", async () => {
    const { database, changes, ask } = newReader();
    for (const [atMs, hash] of [
      [0, "a"],
      [5_000, "a"],
      [10_000, "b"],
    ] as const) {
      database.record = keyWith(hash);
      await ask(atMs);
      await pass(100);
    }
    expect(changes.map(({ readMs }) => readMs - START_MS)).toEqual([0, 10_000]);
  });
});

describe("for a secret that the record lacks", () => {
  it("it is read again at once, so a new secret is known", async () => {
    const { database, ask } = newReader();
    await ask(0);
    database.record = keyWith("b", "a");
    const answer = await ask(2_000, "b");
    await pass(100);
    expect(answer).toMatchObject({ afterMs: 100, hashes: "b,a", isNew: true });
  });

  it("it is read once a second: a patient call waits, another one learns that the record is not new", async () => {
    const { database, reads, ask } = newReader();
    await ask(0, "x");
    await pass(150);
    database.record = keyWith("b", "a");
    expect(await ask(200, "b")).toMatchObject({ afterMs: 0, hashes: "a", isNew: false });
    const patient = await Promise.all([ask(300, "b", true), ask(300, "y", true), ask(300, "z", true)]);
    await pass(900);
    expect(reads).toEqual([0, 1_000]);
    for (const each of patient) expect(each).toMatchObject({ afterMs: 800, hashes: "b,a", isNew: true });
  });

  it("a read under way does not count, because it may have missed the secret", async () => {
    const { database, reads, ask } = newReader();
    await ask(0);
    await pass(100);
    // In the background.
    await ask(6_000);
    database.record = keyWith("b");
    const answer = await ask(6_010, "b", true);
    await pass(1_200);
    expect([reads, answer]).toMatchObject([[0, 6_000, 7_000], { hashes: "b", isNew: true }]);
  });

  it("it is read again after a failed read, once in 5 s", async () => {
    const { database, reads, ask } = newReader();
    await ask(0);
    await pass(100);
    database.fault = "fails";
    await ask(2_000, "b");
    await pass(110);
    database.fault = "";
    database.record = keyWith("b");
    expect((await ask(7_000, "b")).error).not.toBe("");
    const answer = await ask(7_200, "b");
    await pass(100);
    expect([reads, answer]).toMatchObject([[0, 2_000, 7_200], { hashes: "b", isNew: true }]);
  });
});

describe("if the key does not exist", () => {
  it("that is the answer for each secret, for 10 s", async () => {
    const { database, reads, ask } = newReader();
    database.record = null;
    await ask(0, "a");
    await pass(100);
    expect(await ask(4_900, "b")).toMatchObject({ afterMs: 0, hashes: "none", isNew: true });
    await ask(10_000, "b");
    await pass(100);
    expect(reads).toEqual([0, 10_000]);
  });
});

describe("while the database fails", () => {
  it.each([
    ["fails", 100],
    ["hangs", 2_000],
  ])("the record is used for 5 minutes more, and read once in 5 s: it %s", async (fault, waitMs) => {
    const { database, reads, failures, ask } = newReader();
    await ask(0);
    await pass(100);
    database.fault = fault;
    const first = await ask(10_000);
    await pass(waitMs);
    expect(first).toMatchObject({ afterMs: waitMs, hashes: "a", usableMs: 5_000, isNew: false });
    // No call waits for the database meanwhile.
    expect(await ask(12_500)).toMatchObject({ afterMs: 0, usableMs: 5_000 });
    // The record can't tell whether a secret is new.
    expect((await ask(13_000, "unknown", true)).error).not.toBe("");
    expect([reads, failures.length]).toEqual([[0, 10_000], 1]);
    const last = await ask(309_000);
    await pass(waitMs < 1_000 ? waitMs : 0);
    if (fault === "fails") expect(last).toMatchObject({ hashes: "a", usableMs: 1_000 - waitMs });
    await pass(5_000);
    const tooLate = await ask(316_000);
    await pass(waitMs);
    expect(tooLate.error).toContain(fault === "fails" ? "out of order" : "did not answer");
  });

  it.each([
    ["fails", 2],
    ["hangs", 1],
  ])(
    "without a record, calls get its error; a database that %s is read %i times in 5 s",
    async (fault, times) => {
      const { database, reads, ask } = newReader();
      database.fault = fault;
      const answers = [await ask(0), await ask(4_900)];
      await pass(100);
      expect(answers.map(({ error }) => error !== "")).toEqual([true, true]);
      expect(reads.length).toBe(times);
    },
  );

  it("the first read that succeeds ends that", async () => {
    const { database, ask } = newReader();
    await ask(0);
    database.fault = "fails";
    await ask(10_000);
    await pass(100);
    database.fault = "";
    database.record = keyWith("b");
    const answer = await ask(16_000);
    await pass(100);
    expect(answer).toMatchObject({ hashes: "b", usableMs: 29_900, isNew: true });
  });
});
