// How messages and what is stored are read: the defaults of absent fields, and what is refused. test/simulation/releases.test.ts shows that the
// defaults do no harm.

import { describe, expect, it } from "vitest";
import { KEY_POLICY, type Key } from "../../src/keys/key.ts";
import { WINDOWS } from "../../src/keys/plans.ts";
import type { Reader, Refuse } from "../../src/lib/tolerant.ts";
import { refuseAll } from "../../src/lib/tolerant.ts";
import { unusedQuota } from "../../src/limits/object/quota.ts";
import * as state from "../../src/limits/object/state.ts";
import {
  readAcquireAnswer,
  readAcquireRequest,
  readKeyAnswer,
  readUsageAnswer,
} from "../../src/limits/readers.ts";
import { startOfWindowMs } from "../../src/limits/windows.ts";
import { drop, fieldsOf, replaceNumber } from "../support/fields.ts";
import * as first from "../support/releases/1.0.0.ts";
import * as released from "../support/releases/1.1.0.ts";

const { request, answer, stored } = released;

/** What an isolate knows of the status. */
const KNOWN_STATUS = {
  revision: 7,
  nowMs: 8,
  windows: {
    minute: { seconds: 60, startMs: 0, used: 1, limit: 9 },
    day: { seconds: 86_400, startMs: 0, used: 2, limit: 99 },
  },
  leased: { minute: 0, day: 0 },
};
const readKey = KEY_POLICY.readKey as Reader<Key | undefined>;
const KNOWN = { statusBy: () => KNOWN_STATUS, readKey };
const readState = (value: unknown, nowMs: number, refuse: Refuse) =>
  state.readState(value, nowMs, refuse, KEY_POLICY);

/** A message without the fields of these paths. */
function without<Value extends object>(value: Value, ...paths: string[]): Value {
  const copy = structuredClone(value);
  for (const path of paths) drop(copy, path.split("."));
  return copy;
}

/** A message with another value in a path of names. */
function replaced(value: object, path: string, by: unknown): object {
  const [name = "", ...rest] = path.split(".");
  const each = (value as Record<string, object>)[name];
  const next = rest.length === 0 ? by : replaced(each as object, rest.join("."), by);
  return Array.isArray(value) ? value.with(Number(name), next) : { ...value, [name]: next };
}

const readAnswer = (message: object, known: object = {}) =>
  readAcquireAnswer(message, { ...KNOWN, ...known });
const resultOf = (message: object) => {
  const read = readAnswer(message);
  return "result" in read ? read.result : undefined;
};

/** What a key has that its release did not know. */
const DEFAULTS = { access: "write" };
const withDefaults = <Answer extends { key: object }>({ key, ...answer }: Answer) => ({
  ...answer,
  key: { ...DEFAULTS, ...key },
});

describe.each([
  ["1.0.0", first],
  ["1.1.0", released],
])("release %s", (_, release) => {
  it("is read as it was written, with a default for what it lacks", () => {
    expect(readAcquireRequest(release.request)).toEqual(release.request);
    expect(readAcquireAnswer(release.answer, KNOWN)).toEqual(withDefaults(release.answer));
    expect(readUsageAnswer(release.usage, KNOWN)).toEqual(withDefaults(release.usage));
    expect(readKeyAnswer(release.identified, KNOWN)).toEqual(withDefaults(release.identified));
    expect(readKeyAnswer(release.noRecord, KNOWN)).toEqual(release.noRecord);
    const stored = { ...release.stored, read: withDefaults(release.stored.read) };
    expect(readState(release.stored, 0, refuseAll)).toMatchObject(stored);
  });

  it("has no number that is read although it is none: a message is refused, a stored one counts as absent", () => {
    const all = [
      [release.request, readAcquireRequest],
      [release.answer, (message: object) => readAcquireAnswer(message, KNOWN)],
    ] as const;
    for (const [valid, read] of all)
      for (const path of fieldsOf(valid)) {
        const message = structuredClone(valid);
        if (replaceNumber(message, path)) expect(() => read(message), path.join(".")).toThrow(TypeError);
      }
    // This release need not read the version.
    for (const path of fieldsOf(release.stored).filter(([name]) => name !== "version")) {
      const [damaged, incomplete] = [structuredClone(release.stored), structuredClone(release.stored)];
      if (!replaceNumber(damaged, path)) continue;
      drop(incomplete, path);
      const problems: string[] = [];
      const read = (value: unknown) => readState(value, 0, (problem) => void problems.push(problem));
      expect(read(damaged), path.join(".")).toEqual(read(incomplete));
      expect(problems).toHaveLength(1);
    }
  });
});

it.each([
  ["requests", "5", "acquire.requests is no whole number from 0 on: 5"],
  ["requests", -200, "acquire.requests is no whole number from 0 on: -200"],
  ["requests", 1.5, "acquire.requests is no whole number from 0 on: 1.5"],
  ["revision", 2 ** 53, "acquire.revision is no whole number from 0 on: 9007199254740992"],
  ["recent", "5", "acquire.recent is no finite number: 5"],
  ["isolate", 5, "acquire.isolate is no string: 5"],
  ["wantsLease", 1, "acquire.wantsLease is no boolean: 1"],
  ["lease", [], "acquire.lease is no object: Array"],
  ["decisions", { toString: 1 }, "acquire.decisions is no array: Object"],
  ["decisions", [null], "acquire.decisions is no object: Null"],
])("a call whose %s is %s is refused", (name, value, problem) => {
  expect(() => readAcquireRequest(replaced(request, name, value))).toThrow(new TypeError(problem));
});

it.each([-0.1, 1.1, "1"])("an answer with a share of %s is refused", (share) => {
  const problem = `acquire.result.share is no number from 0 to 1: ${share}`;
  expect(() => readAnswer(replaced(answer, "result.share", share))).toThrow(new TypeError(problem));
});

describe("a call", () => {
  it("counts one request if it does not say how many, and asks for nothing", () => {
    const { isolate, number } = request;
    const rest = { requests: 1, revision: 0, recent: 0, wantsLease: false, decisions: [] };
    expect(readAcquireRequest({ isolate, number })).toEqual({ isolate, number, ...rest });
  });

  it.each(["isolate", "number"])("without its %s is nobody's, and gets no lease", (name) => {
    const nobody = { isolate: "", number: 1, wantsLease: false };
    expect(readAcquireRequest(without(request, name))).toMatchObject(nobody);
  });

  it("says nothing of its lease without the lease's id, which is not the same as holding none", () => {
    expect(readAcquireRequest(without(request, "lease.id"))).not.toHaveProperty("lease");
    expect(readAcquireRequest({ ...request, lease: null }).lease).toBeNull();
  });

  it("has used all of its lease, and still uses it, if it does not say otherwise", () => {
    const { lease } = readAcquireRequest(without(request, "lease.used", "lease.isOver"));
    expect(lease).toEqual({ id: 15, used: Number.MAX_SAFE_INTEGER, isOver: false });
  });

  it("reports decisions of now, which no call replaces, if it does not say otherwise", () => {
    const { decisions } = readAcquireRequest(without(request, "decisions.*.number", "decisions.*.atMs"));
    const latest = Number.MAX_SAFE_INTEGER;
    expect(decisions).toEqual([{ ...request.decisions[0], number: latest, atMs: latest }]);
    // Otherwise it would replace what its call was charged.
    expect(readAcquireRequest(without(request, "decisions.*.admitted")).decisions).toEqual([]);
  });
});

describe("an answer", () => {
  const needed = pathsOf(answer.key, "key").filter((path) => !Object.keys(DEFAULTS).includes(path.slice(4)));
  it.each(needed)("has no key without %s, and then the isolate's or none", (path) => {
    const message = without(answer, path);
    expect(() => readAnswer(message)).toThrow(new TypeError("an answer of the object has no key"));
    const key = { ...answer.key, id: "known" } as never;
    expect(readAnswer(message, { key })).toMatchObject({ key, usableMs: 0, result: answer.result });
  });

  it("that does not say how old its key is lends it for the shortest time, and does not say that it is new", () => {
    expect(readAnswer(without(answer, "usableMs", "isNew"))).toMatchObject({ usableMs: 5_000, isNew: false });
  });

  it("tells nothing that the isolate knows otherwise if it does not say it", () => {
    const { revision, nowMs, windows } = KNOWN_STATUS;
    expect(resultOf(without(answer, "result.revision", "result.nowMs"))).toMatchObject({ revision, nowMs });
    const readWindows = (path: string) => resultOf(without(answer, `result.${path}`))?.windows;
    for (const path of ["windows", "windows.day.limit", "windows.minute.used", "windows.day.startMs"])
      expect(readWindows(path), path).toEqual(windows);
    // The other release does not have it.
    const { minute } = windows;
    expect(Object.entries(readWindows("windows.minute") ?? {})).toEqual([
      ["minute", minute],
      ["day", answer.result.windows.day],
    ]);
    expect(resultOf(without(answer, "result.leased"))).toMatchObject({ leased: {} });
    expect(resultOf(without(answer, "result.bannedUntilMs"))).not.toHaveProperty("bannedUntilMs");
  });

  it.each(pathsOf(answer.result.lease, "result.lease"))("brings no lease without %s", (path) => {
    expect(resultOf(without(answer, path))).not.toHaveProperty("lease");
  });

  it("has counted nothing without a result", () => {
    expect(readAnswer(without(answer, "result"))).not.toHaveProperty("result");
    expect(readUsageAnswer(without(released.usage, "usage"), KNOWN)).not.toHaveProperty("usage");
  });

  it("about usage leaves out days without a date", () => {
    const read = readUsageAnswer(without(released.usage, "usage.days.*.date", "usage.status"), KNOWN);
    expect(read).toMatchObject({ usage: { status: { ...KNOWN_STATUS, leased: {} }, days: [] } });
  });
});

describe("what is stored", () => {
  const NOW_MS = stored.quota.counts.minute.startMs + 20_000;
  const read = (...paths: string[]) => readState(without(stored, ...paths), NOW_MS, refuseAll);

  it("is that of an unused key if there is nothing", () => {
    const { quota, ...rest } = readState(undefined, NOW_MS, refuseAll);
    expect(rest).toMatchObject({ version: 1, keyId: undefined, read: undefined });
    expect(quota).toEqual(unusedQuota(WINDOWS));
  });

  it.each(["startMs", "used", "seconds"])(
    "has no more than the day's requests in a minute without its count's %s",
    (name) => {
      const earlier = replaced(stored, "quota.totals.days.0.admitted", 200);
      const { minute, day } = readState(without(earlier, `quota.counts.minute.${name}`), NOW_MS, refuseAll)
        .quota.counts;
      expect(minute).toEqual({ ...stored.quota.counts.minute, used: 200 });
      expect(day).toEqual(stored.quota.counts.day);
    },
  );

  it("has a full minute, which ends, if nothing tells its requests", () => {
    const { minute } = read("quota.totals", "quota.counts.minute").quota.counts;
    expect(minute).toEqual({ ...stored.quota.counts.minute, used: 1_000_000_000 });
  });

  it("takes the count of the day from the totals if it is absent, and from nothing on another day", () => {
    expect(read("quota.counts.day").quota.counts.day).toEqual(stored.quota.counts.day);
    const tomorrowMs = NOW_MS + 86_400_000;
    const { day } = readState(without(stored, "quota.counts.day.used"), tomorrowMs, refuseAll).quota.counts;
    expect(day).toEqual({ seconds: 86_400, startMs: startOfWindowMs(86_400, tomorrowMs), used: 0 });
  });

  const hour = { seconds: 3_600, startMs: NOW_MS - (NOW_MS % 3_600_000) };
  /** The counts if there are these windows between minute and day. */
  const countsWith = (windows: object, value: object = stored, nowMs = NOW_MS) => {
    const policy = { ...KEY_POLICY, windows: { minute: 60, ...windows, day: 86_400 } };
    return state.readState(value, nowMs, refuseAll, policy).quota.counts;
  };

  it("has of a window that its release did not have the requests of the next shorter one; of one with another length, those of the day", () => {
    const { used } = stored.quota.counts.minute;
    expect(countsWith({ hour: 3_600 })).toEqual({ ...stored.quota.counts, hour: { ...hour, used } });
    const known = structuredClone(stored) as { quota: { counts: object }; read: { key: object } };
    Object.assign(known.quota.counts, { hour: { ...hour, used: 7 } });
    Object.assign(known.read.key, { limits: { minute: 300, hour: 900, day: 30_000 } });
    expect(countsWith({ hour: 3_600 }, known)).toMatchObject({ hour: { ...hour, used: 7 } });
    expect(countsWith({ hour: 1_800 }, known)).toMatchObject({ hour: { seconds: 1_800, used } });
    // Of an earlier hour.
    expect(countsWith({ hour: 3_600 }, stored, NOW_MS + 3_600_000)).toMatchObject({ hour: { used: 0 } });
  });

  it("has at most the day's requests in a lost window that is not new", () => {
    const full = { ...hour, used: stored.quota.totals.days[0]?.admitted };
    const known = replaced(stored, "read.key.limits", { minute: 300, hour: 900, day: 30_000 });
    expect(countsWith({ hour: 3_600 }, known)).toEqual({ ...stored.quota.counts, hour: full });
    // Nobody knows whether it is new, because the limits that the key had are lost.
    expect(countsWith({ hour: 3_600 }, without(stored, "read"))).toMatchObject({ hour: full });
    // One that had another length begins as if it had been lost.
    const longer = replaced(known, "quota.counts.hour", { ...hour, used: 7 });
    const startMs = startOfWindowMs(1_800, NOW_MS);
    expect(countsWith({ hour: 1_800 }, longer)).toMatchObject({ hour: { ...full, seconds: 1_800, startMs } });
  });

  it("has of a lost or new window of several days the totals of its days", () => {
    const [today] = stored.quota.totals.days;
    // Weeks begin on Thursday, as Unix time did.
    const days = ["2026-11-18", "2026-11-19", "2026-11-22"].map((date, index) => {
      return { ...today, date, admitted: 10 ** index };
    });
    const value = replaced(stored, "quota.totals.days", days);
    const policy = { ...KEY_POLICY, windows: { ...WINDOWS, week: 604_800 } };
    const week = { seconds: 604_800, startMs: Date.UTC(2026, 10, 19), used: 110 };
    const limits = { minute: 300, day: 30_000, week: 90_000 };
    for (const each of [value, replaced(value, "read.key.limits", limits)])
      expect(state.readState(each, NOW_MS, refuseAll, policy).quota.counts).toMatchObject({ week });
  });

  it.each(["id", "size", "used", "grantedMs", "durationMs", "renewedMs"])(
    "has no lease without its %s",
    (name) => {
      const [isolate] = read(`quota.isolates.*.lease.${name}`).quota.isolates.values();
      const { lease: _, ...others } = [...stored.quota.isolates.values()][0] ?? {};
      expect(isolate).toEqual(others);
    },
  );

  it("has neither an old key, nor anything to write, nor a ban if it does not say so", () => {
    expect(read("read.readMs")).not.toHaveProperty("read.readMs");
    expect(read("read.key.revokedAtMs").read).toBeUndefined();
    expect(read("unwritten").unwritten).toEqual({ banMs: Number.POSITIVE_INFINITY, days: [], usageMs: 0 });
    expect(read("quota.bannedUntilMs").quota.bannedUntilMs).toBe(0);
    expect(read("quota.isolates").quota.isolates).toEqual(new Map());
    expect(read("quota.totals").quota.totals).toEqual({ days: [], latest: {} });
  });

  it("counts as nothing if it is no object", () => {
    const problems: string[] = [];
    const { quota } = readState("damaged", NOW_MS, (problem) => void problems.push(problem));
    expect(quota.counts).toMatchObject({ minute: { used: 1_000_000_000 } });
    expect(problems).toEqual(["state is no object: damaged"]);
  });
});

/** The paths of the fields of a value that is at this path. */
function pathsOf(value: object, at: string): string[] {
  return Object.keys(value).map((name) => `${at}.${name}`);
}
