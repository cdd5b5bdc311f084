// What a service may get wrong at the door of the limiter: windows, limits, keys, tokens, clocks. The objects are the real ones, and store in a Map.

import { Hono } from "hono";
import { beforeEach, expect, it, vi } from "vitest";
import { RUNTIME } from "../../src/lib/workers-runtime.ts";
import {
  type KeyPolicy,
  LimiterUnavailable,
  limitedObject,
  limits,
  MAX_LIMIT,
} from "../../src/limits/index.ts";

/** Ten seconds after a minute, an hour and a day began. */
const NOW_MS = Date.UTC(2026, 10, 22) + 10_000;
const WINDOWS = { minute: 60, hour: 3_600 };

type Key = { limits: Record<string, unknown> };

beforeEach(() => void vi.useFakeTimers({ now: NOW_MS }));

/** A key with these limits, its object, and isolates that call it. */
function newService(given: Key["limits"] = { minute: 20, hour: 100 }, aheadMs = 0) {
  const stored = new Map<string, unknown>();
  const source = { key: { limits: given } };
  const failures = { log: vi.fn(), onUsage: vi.fn(async () => {}) };
  const load = vi.fn(async () => structuredClone(source.key));
  const policy: KeyPolicy<Key> = {
    windows: WINDOWS,
    // Such as those that JSON from a database has.
    limitsOf: ({ limits: { minute, hour } }) => ({ minute, hour }) as Record<string, number>,
    problemOf: () => undefined,
  };
  const runtime = { ...RUNTIME, now: () => Date.now() + aheadMs };
  class Limited extends limitedObject(Object, () => ({ policy, runtime, load, ...failures })) {}
  const newObject = () =>
    new Limited({
      id: { name: "a", toString: () => "0".repeat(64) },
      storage: {
        kv: {
          get: (name: string) => structuredClone(stored.get(name)),
          put: (name: string, value: unknown) => stored.set(name, structuredClone(value)),
        },
        setAlarm: async () => {},
        deleteAll: async () => stored.clear(),
      },
    });
  const service = { stored, source, load, ...failures, object: newObject(), restart, newIsolate };
  function restart() {
    service.object = newObject();
  }
  function newIsolate(windows: object = {}) {
    const { headers, identify, admit } = limits<Key>({
      ...{ policy: { ...policy, ...windows }, runtime, load },
      objectOf: () => service.object,
      credentialOf: (token) => ({ id: token, hash: token }),
      refuse: (c) => c.text("refused", 429),
      reject: async (c, problem) => c.text(problem, 401),
    });
    const app = new Hono().use(headers, identify, admit).get("/", (c) => c.text("admitted"));
    app.onError((error, c) => c.text(`${error}`, error instanceof LimiterUnavailable ? 503 : 500));
    return async (token = "a") => {
      let response: Response | undefined;
      const answered = app.request("/", { headers: { Authorization: `Bearer ${token}` } });
      void Promise.resolve(answered).then((each) => (response = each));
      for (let waitedMs = 0; waitedMs < 10_000 && response === undefined; waitedMs += 10)
        await vi.advanceTimersByTimeAsync(10);
      if (response === undefined) throw new Error("a request has waited for 10 s");
      return response;
    };
  }
  return service;
}

async function admittedOf(
  requests: number,
  ...isolates: ReturnType<ReturnType<typeof newService>["newIsolate"]>[]
) {
  let admitted = 0;
  for (let index = 0; index < requests; index += 1) {
    const response = await isolates[index % isolates.length]?.();
    if (response?.status === 200) admitted += 1;
  }
  return admitted;
}

it.each([
  ["a fraction", 20.000000000000004, 20, "20"],
  ["infinite", Number.POSITIVE_INFINITY, 30, `${MAX_LIMIT}`],
  ["no number", "20", 20, "20"],
  ["no text of a number", "many", 0, "0"],
  ["no possible number", Number.NaN, 0, "0"],
])(
  "a limit that is %s admits whole requests through several isolates",
  async (_, minute, admitted, shown) => {
    const { newIsolate } = newService({ minute, hour: 100 });
    const isolates = [newIsolate(), newIsolate(), newIsolate()] as const;
    expect(await admittedOf(30, ...isolates)).toBe(admitted);
    const { headers } = (await isolates[0]()) ?? {};
    expect(headers?.get("RateLimit-Policy")).toContain(`"minute";q=${shown};w=60`);
  },
);

it("an isolate enforces a limit that its key gains while the object can't be asked, in place of the one it had", async () => {
  const service = newService({ minute: 20 });
  const isolate = service.newIsolate();
  expect(await admittedOf(3, isolate)).toBe(3);
  service.source.key = { limits: { hour: 8 } };
  service.object.acquire = service.object.identify = () => Promise.reject(new Error("away"));
  // The key is read from the primary once it is old.
  await vi.advanceTimersByTimeAsync(31_000);
  expect(await admittedOf(30, isolate)).toBe(5);
  const { headers } = await isolate();
  expect(headers.get("RateLimit")).toMatch(/^"minute";r=9\d+;t=\d+, "hour";r=0;t=\d+$/);
});

it.each([
  ["no limits", {}],
  ["limits that can't be read", null],
])("a key with %s gets an error that is logged, and works once it is repaired", async (_, wrong) => {
  const service = newService(wrong as never);
  const isolate = service.newIsolate();
  for (let request = 0; request < 3; request += 1) {
    expect((await isolate()).status).toBe(503);
    await vi.advanceTimersByTimeAsync(1_000);
  }
  expect(service.log).toHaveBeenCalledWith("key_not_read", expect.objectContaining({ keyId: "a" }));
  service.source.key = { limits: { minute: 5 } };
  await vi.advanceTimersByTimeAsync(31_000);
  expect(await admittedOf(9, isolate)).toBe(5);
});

it("a stored key whose limits can't be read counts as absent, so the object reads the key again", async () => {
  const service = newService();
  await service.newIsolate()();
  const state = service.stored.get("state") as { read: { key: unknown } };
  state.read.key = { rate: 5 };
  service.restart();
  expect((await service.newIsolate()()).status).toBe(200);
  expect(service.load).toHaveBeenCalledTimes(2);
  expect(service.log).toHaveBeenCalledWith("state_damaged", expect.anything());
});

it("a token that is longer than the name of an object can be is unknown without a call, and counts for its address", async () => {
  const service = newService();
  const isolate = service.newIsolate();
  expect((await isolate("x".repeat(512))).status).toBe(200);
  const { status, headers } = await isolate("x".repeat(513));
  expect([status, headers.get("X-RateLimit-Remaining")]).toEqual([401, "59"]);
});

it("a request's time is that of the runtime", async () => {
  const { newIsolate } = newService(undefined, 3_600_000);
  expect((await newIsolate()()).status).toBe(200);
});

it("what a writer of usage throws at once is logged like a rejection", async () => {
  const service = newService();
  service.onUsage.mockImplementation(() => {
    throw new Error("no binding");
  });
  await service.newIsolate()();
  await vi.advanceTimersByTimeAsync(600_000);
  await service.object.alarm();
  expect(service.log).toHaveBeenCalledWith("usage_not_recorded", { keyId: "a", cause: "Error: no binding" });
});
