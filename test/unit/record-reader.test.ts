// The record of a key in its object: when it is read, how long an isolate may use it, and what happens while the database fails.

import { beforeEach, describe, expect, it, vi } from "vitest";
import { type ReadRecord, RecordReader } from "../../src/keys/object/record-reader.ts";
import type { KeyRecord } from "../../src/keys/record.ts";
import { RUNTIME } from "../../src/lib/runtime.ts";
import { recordOf } from "../support/key-record.ts";

const START_MS = Date.UTC(2026, 10, 20, 12, 34, 20);

beforeEach(() => void vi.useFakeTimers({ now: START_MS }));

const keyWith = (...hashes: string[]) => recordOf(hashes, { minute: 60, day: 1_000 });
const storedAt = (readMs: number): ReadRecord => ({ record: keyWith("stored"), readMs });
const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);

/** A reader of a database whose reads take 100 ms, fail or hang. */
function newReader(stored?: ReadRecord) {
  const database = { record: keyWith("a") as KeyRecord | null, fault: "" };
  const reads: number[] = [];
  const changes: number[] = [];
  const load = async () => {
    reads.push(Date.now() - START_MS);
    const { record } = database;
    if (database.fault === "hangs") return new Promise<never>(() => {});
    await RUNTIME.wait(100);
    if (database.fault === "fails") throw new Error("out of order");
    return record;
  };
  const onFailure = vi.fn();
  const onChange = () => changes.push((reader.latest?.readMs ?? 0) - START_MS);
  const reader = new RecordReader(RUNTIME, stored, { load, onChange, onFailure });
  /** Asks at `atMs` after the start. What is returned has the answer once there is one. */
  const ask = async (atMs: number, secret?: string, isPatient?: boolean) => {
    await pass(START_MS + atMs - Date.now());
    const answer = { afterMs: -1, hashes: "", usableMs: 0, isNew: false, error: "" };
    const set = (changed: Partial<typeof answer>) =>
      Object.assign(answer, { afterMs: Date.now() - START_MS - atMs, ...changed });
    void reader.answer(secret, isPatient).then(
      ({ record, ...rest }) =>
        set({ ...rest, hashes: record?.secrets.map(({ hash }) => hash).join() ?? "none" }),
      (error) => set({ error: `${error}` }),
    );
    await pass(0);
    return answer;
  };
  /** Asks at `atMs`, and waits for a read. */
  const askAndRead = async (atMs: number, secret?: string, readMs = 100) => {
    const answer = await ask(atMs, secret);
    await pass(readMs);
    return answer;
  };
  return { database, reads, changes, onFailure, ask, askAndRead };
}

describe("a record is read", () => {
  it("before the first answer, then in the background from 5 s on, and before an answer from 10 s on", async () => {
    const { database, reads, ask, askAndRead } = newReader();
    expect(await askAndRead(0)).toMatchObject({ afterMs: 100, usableMs: 29_900, isNew: true });
    database.record = keyWith("b");
    expect(await ask(4_999)).toMatchObject({ afterMs: 0, hashes: "a", usableMs: 25_001, isNew: false });
    expect(await ask(5_000)).toMatchObject({ afterMs: 0, hashes: "a" });
    expect(await ask(5_200)).toMatchObject({ afterMs: 0, hashes: "b", usableMs: 29_800 });
    expect([(await askAndRead(15_000)).afterMs, reads]).toEqual([100, [0, 5_000, 15_000]]);
  });

  it("not at once if the object has slept for a short time, but if the clock has stepped back, because its age is unknown", async () => {
    const slept = newReader(storedAt(START_MS - 4_000));
    expect(await slept.ask(0)).toMatchObject({ afterMs: 0, hashes: "stored", usableMs: 26_000 });
    const stepped = newReader(storedAt(START_MS + 1));
    await stepped.ask(0);
    expect([slept.reads, stepped.reads]).toEqual([[], [0]]);
  });

  it("and handed on if it differs", async () => {
    const { database, changes, askAndRead } = newReader();
    for (const atMs of [0, 5_000, 10_000]) {
      if (atMs === 10_000) database.record = keyWith("b");
      await askAndRead(atMs);
    }
    expect(changes).toEqual([0, 10_000]);
  });

  it("once in 10 s if the key does not exist, which is the answer for each secret", async () => {
    const { database, reads, ask, askAndRead } = newReader();
    database.record = null;
    await askAndRead(0, "a");
    expect(await ask(4_900, "b")).toMatchObject({ afterMs: 0, hashes: "none", isNew: true });
    await askAndRead(10_000, "b");
    expect(reads).toEqual([0, 10_000]);
  });
});

describe("for a secret that the record lacks", () => {
  it("it is read once a second: a patient call waits, another one learns that the record is not new", async () => {
    const { database, reads, ask } = newReader();
    await ask(0, "x");
    await pass(150);
    database.record = keyWith("b", "a");
    expect(await ask(200, "b")).toMatchObject({ afterMs: 0, hashes: "a", isNew: false });
    const patient = await Promise.all(["b", "y", "z"].map((secret) => ask(300, secret, true)));
    await pass(900);
    expect(reads).toEqual([0, 1_000]);
    for (const each of patient) expect(each).toMatchObject({ afterMs: 800, hashes: "b,a", isNew: true });
  });

  it("a read under way does not count, because it may have missed the secret", async () => {
    const { database, reads, ask, askAndRead } = newReader();
    await askAndRead(0);
    // In the background.
    await ask(6_000);
    database.record = keyWith("b");
    const answer = await ask(6_010, "b", true);
    await pass(1_200);
    expect([reads, answer]).toMatchObject([[0, 6_000, 7_000], { hashes: "b", isNew: true }]);
  });

  it("it is read again after a failed read, once in 5 s", async () => {
    const { database, reads, ask, askAndRead } = newReader();
    await askAndRead(0);
    database.fault = "fails";
    await askAndRead(2_000, "b");
    database.fault = "";
    database.record = keyWith("b");
    expect((await ask(7_000, "b")).error).not.toBe("");
    const answer = await askAndRead(7_200, "b");
    expect([reads, answer]).toMatchObject([[0, 2_000, 7_200], { hashes: "b", isNew: true }]);
    // From then on once a second, as before.
    expect(await ask(7_400, "c")).toMatchObject({ afterMs: 0, isNew: false });
  });
});

describe("while the database fails", () => {
  it.each([
    ["fails", 100],
    ["hangs", 2_000],
  ])("the record is used for 5 minutes more, and read once in 5 s: it %s", async (fault, waitMs) => {
    const { database, reads, onFailure, ask, askAndRead } = newReader();
    await askAndRead(0);
    database.fault = fault;
    const first = await askAndRead(10_000, undefined, waitMs);
    expect(first).toMatchObject({ afterMs: waitMs, hashes: "a", usableMs: 5_000, isNew: false });
    // No call waits for the database meanwhile.
    expect(await ask(12_500)).toMatchObject({ afterMs: 0, usableMs: 5_000 });
    // The record can't tell whether a secret is new.
    expect((await ask(13_000, "unknown", true)).error).not.toBe("");
    expect([reads, onFailure.mock.calls.length]).toEqual([[0, 10_000], 1]);
    const last = await askAndRead(309_000);
    if (fault === "fails") expect(last).toMatchObject({ hashes: "a", usableMs: 900 });
    await pass(5_000);
    const tooLate = await askAndRead(316_000, undefined, waitMs);
    expect(tooLate.error).toContain(fault === "fails" ? "out of order" : "did not answer");
  });

  it.each([
    ["fails", 2],
    ["hangs", 1],
  ])(
    "without a record, calls get its error; a database that %s is read %i times in 5 s",
    async (fault, times) => {
      const { database, reads, ask, askAndRead } = newReader();
      database.fault = fault;
      const answers = [await ask(0), await askAndRead(4_900)];
      expect(answers.map(({ error }) => error !== "")).toEqual([true, true]);
      expect(reads.length).toBe(times);
    },
  );
});
