// Bans: clients that wait for Retry-After are never banned, clients that keep sending after a 429 are.

import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import { MESSAGES } from "../../src/http/messages.ts";
import type { RateLimiter } from "../../src/index.ts";
import { unbanKey } from "../../src/keys/admin.ts";
import { findKeyById, listChanges } from "../../src/keys/records.ts";
import { formatTime } from "../../src/lib/rfc3339.ts";
import { headersOf } from "../../src/rate-limit/headers.ts";
import { PLAN_LIMITS } from "../../src/rate-limit/plans.ts";
import type { AcquireResult } from "../../src/rate-limit/protocol.ts";
import type { Limits } from "../../src/rate-limit/windows.ts";
import { banKey, type ErrorBody, newClient, operator, pass, watchLimiter } from "../support/worker/client.ts";
import { watchStatements } from "../support/worker/database-stub.ts";
import { takeLogLines } from "../support/worker/log-lines.ts";

const { free: FREE, pro: PRO, business: BUSINESS } = PLAN_LIMITS;

const PLANS: [tolerated: number, limits: Limits][] = [
  [180, FREE],
  [900, PRO],
  [3_000, BUSINESS],
  [180, { minute: 1, day: 5 }],
  [183, { minute: 61, day: 500 }],
];

const NOTHING = { released: [], outbox: [], bannedUntilMs: 0, bansLiftedUntilMs: 0 };

type Acquire = (limits: Limits, requests: number, waitedMs?: number) => AcquireResult;

/** Runs `story` inside the object of a new key, where a batch costs no call. */
function inLimiter(story: (acquire: Acquire) => void | Promise<void>): Promise<void> {
  const limiter = env.RATE_LIMITER.getByName(`key-${crypto.randomUUID()}`);
  return runInDurableObject(limiter, (instance: RateLimiter) =>
    story((limits, requests, waitedMs = 0) => {
      const id = crypto.randomUUID();
      return instance.acquire(limits, {
        id,
        requests,
        waitedMs,
        released: [],
        outbox: [],
        bannedUntilMs: 0,
        bansLiftedUntilMs: 0,
      });
    }),
  );
}

describe("a ban never affects", () => {
  it.each([0, 1, 5, 30])(
    "150 clients of a Free key that wait for Retry-After plus up to %i s",
    async (jitterS) => {
      await inLimiter((acquire) => {
        // The day is used up before it ends.
        vi.setSystemTime(Date.UTC(2026, 10, 20, 23, 30, 20));
        const endMs = Date.UTC(2026, 10, 21, 0, 5);
        const clients = Array.from({ length: 150 }, () => ({ nextMs: Date.now() }));
        const perDay = new Map<number, number>();
        for (let request = 0; ; request += 1) {
          const client = clients.reduce((first, each) => (each.nextMs < first.nextMs ? each : first));
          if (client.nextMs >= endMs) break;
          vi.setSystemTime(client.nextMs);
          const { refused, ...status } = acquire(FREE, 1);
          expect(status.bannedUntilMs).toBeUndefined();
          const { "Retry-After": retryAfterS } = headersOf({ ...status, admitted: refused === 0 });
          // An admitted client sends its next request 50 ms later.
          const jitterMs = (request % 100) * 10 * jitterS;
          client.nextMs += retryAfterS === undefined ? 50 : Number(retryAfterS) * 1_000 + jitterMs;
          perDay.set(status.windows.day.startMs, status.windows.day.used);
        }
        expect([...perDay.values()]).toEqual([1_000, 300]);
      });
    },
  );

  it.each(PLANS.map(([, limits]) => limits))(
    "clients that start each minute with a burst far above the limit, %o",
    async (limits) => {
      await inLimiter((acquire) => {
        for (let minute = 0; minute < 3; minute += 1) {
          for (let batch = 0; batch < 3; batch += 1) {
            const { bannedUntilMs } = acquire(limits, 5 * limits.minute + 181);
            expect(bannedUntilMs).toBeUndefined();
            pass(1_000);
          }
          pass(57_000);
        }
      });
    },
  );
});

describe("a client that keeps sending after a 429", () => {
  it.each(PLANS)(
    "is banned for ten minutes after more than %i late requests, on %o",
    async (tolerated, limits) => {
      await inLimiter((acquire) => {
        acquire(limits, limits.minute + 1);
        // Requests within 2 s are not late.
        pass(2_000);
        acquire(limits, 1_000);
        pass(1);
        expect(acquire(limits, tolerated).bannedUntilMs).toBeUndefined();
        const bannedUntilMs = Math.ceil((Date.now() + 600_000) / 1_000) * 1_000;
        expect(acquire(limits, 10)).toMatchObject({ admitted: 0, refused: 10, bannedUntilMs });
        // Refusals during a ban neither count nor extend it.
        for (const ms of [Date.now(), Date.now() + 1, bannedUntilMs - 1]) {
          vi.setSystemTime(ms);
          const { bannedUntilMs: untilMs, windows } = acquire(limits, 1);
          expect([untilMs, windows.day.refused]).toEqual([bannedUntilMs, 1 + 1_000 + tolerated + 1]);
        }
        pass(1);
        expect(acquire(limits, 1)).toMatchObject({ admitted: 1, refused: 0 });
      });
    },
  );

  type Batches = [limits: Limits, requests: number][];
  it.each<[change: string, before: Limits, after: Batches]>([
    [
      "an upgrade",
      FREE,
      [
        [PRO, 240 + 100],
        [FREE, 800],
      ],
    ],
    ["a downgrade", PRO, [[FREE, 900]]],
  ])(
    "is banned after three times the larger limit of the minute after %s, also by isolates with the old plan",
    async (_, before, after) => {
      await inLimiter((acquire) => {
        acquire(before, before.minute + 1);
        pass(2_001);
        for (const [limits, requests] of after)
          expect(acquire(limits, requests).bannedUntilMs).toBeUndefined();
        expect(acquire(FREE, 1).bannedUntilMs).toBeDefined();
      });
    },
  );

  it("is banned by the arrival of its requests, not of their batch", async () => {
    await inLimiter((acquire) => {
      acquire(FREE, 61);
      pass(3_000);
      expect(acquire(FREE, 181, 1_000).bannedUntilMs).toBeUndefined();
      expect(acquire(FREE, 181, 999).bannedUntilMs).toBeDefined();
    });
  });

  it("gets `key_banned` and the end of the ban", async () => {
    const client = await newClient({ plan: "free" });
    const codes: string[] = [];
    for (let request = 0; request < 60 + 1 + 181; request += 1) {
      if (request === 61) pass(2_001);
      const response = await client.get("/v1/pets/0");
      codes.push((await response.json<ErrorBody>()).code);
    }
    expect(codes.indexOf("key_banned")).toBe(60 + 1 + 180);

    const banned = await client.get("/v1/pets");
    expect([banned.status, banned.headers.get("Retry-After")]).toEqual([429, "601"]);
    expect(banned.headers.get("Cache-Control")).toBe("no-store");
    // Ten minutes, rounded up to a whole second.
    const untilMs = Date.UTC(2026, 10, 20, 12, 44, 23);
    expect((await banned.json<ErrorBody>()).message).toBe(
      MESSAGES.key_banned.ban(untilMs, { seconds: 601, atMs: untilMs }),
    );
    pass(600_498);
    expect((await client.get("/v1/pets")).headers.get("Retry-After")).toBe("1");
    pass(1);
    const after = await client.get("/v1/pets");
    expect([after.status, after.headers.get("X-RateLimit-Remaining")]).toEqual([200, "59"]);
  });

  it("is told to wait for the day if the day is used up beyond the ban", async () => {
    const client = await newClient({ plan: "enterprise", limits: { minute: 5, day: 2 } });
    for (let request = 0; request < 2; request += 1) await client.get("/v1/pets");
    await banKey(client.id);
    const banned = await client.get("/v1/pets");
    const { message } = await banned.json<ErrorBody>();
    const seconds = Number(banned.headers.get("Retry-After"));
    const untilMs = Date.UTC(2026, 10, 20, 12, 44, 21);
    expect(message).toBe(MESSAGES.key_banned.ban(untilMs, { seconds, atMs: Date.UTC(2026, 10, 21) }));
    vi.setSystemTime(Date.now() + seconds * 1000);
    expect((await client.get("/v1/pets")).status).toBe(200);
  });
});

it("during a ban, a flood touches no object, and the database only to look up the key", async () => {
  const client = await newClient({ plan: "free" });
  await banKey(client.id);
  await client.get("/v1/pets");
  const statements = watchStatements();
  const calls = watchLimiter(client.id);
  for (let request = 0; request < 200; request += 1) {
    expect((await client.get("/v1/pets")).status).toBe(429);
    pass(2_999);
  }
  expect(calls).toEqual([]);
  // In 600 s, every 20 s at most.
  expect([statements.length > 0, statements.length <= 30]).toEqual([true, true]);
  pass(700);
  expect((await client.get("/v1/pets")).status).toBe(200);
  expect(calls).toHaveLength(1);
});

type Client = Awaited<ReturnType<typeof newClient>>;

/** Sends requests of a Free key until the last is answered with `code`. */
async function sendUntil(client: Client, code: string): Promise<number> {
  for (let requests = 1; requests < 1_000; requests += 1) {
    const body = await (await client.get("/v1/pets/0")).json<ErrorBody>();
    if (body.code === code) return requests;
  }
  expect.fail(`no response has the code ${code}`);
}

/** Bans a Free key by requests, at the start of a minute. */
async function getBanned(client: Client): Promise<void> {
  pass(60_000 - (Date.now() % 60_000));
  await sendUntil(client, "rate_limit_exceeded");
  pass(2_001);
  await sendUntil(client, "key_banned");
}

describe("an unban", () => {
  it("takes effect within 30 s, and forgets the refusals that led to the ban", async () => {
    const client = await newClient({ plan: "free" });
    await getBanned(client);
    expect(await unbanKey(env.DB, client.id, operator())).toMatchObject({ ok: true });
    pass(30_000);
    // Requests may go on, and are refused for the limit only.
    expect(await sendUntil(client, "rate_limit_exceeded")).toBe(1);
    expect(await sendUntil(client, "key_banned")).toBe(180);
    // That is another ban: the unban does not lift it.
    pass(30_000);
    expect((await (await client.get("/v1/pets")).json<ErrorBody>()).code).toBe("key_banned");
  });

  it("also lifts a ban that is not recorded, or began by a clock ahead of the operator's", async () => {
    const client = await newClient({ plan: "free" });
    await getBanned(client);
    await env.DB.prepare("DELETE FROM key_changes WHERE key_id = ?1").bind(client.id).run();
    expect(await unbanKey(env.DB, client.id, operator())).toMatchObject({ ok: true });
    pass(60_000);
    expect((await client.get("/v1/pets")).status).toBe(200);

    await getBanned(client);
    const behind = operator(Date.now() - 300_000);
    await vi.waitFor(async () =>
      expect(await unbanKey(env.DB, client.id, behind)).toMatchObject({ key: { bans: 1 } }),
    );
    pass(60_000);
    expect((await client.get("/v1/pets")).status).toBe(200);
  });

  it("also shows in GET /v1/usage", async () => {
    const client = await newClient({ plan: "free" });
    await getBanned(client);
    const bannedUntil = async () =>
      (await (await client.get("/v1/usage")).json<{ bannedUntil: number | null }>()).bannedUntil;
    expect(await bannedUntil()).toEqual(expect.any(Number));
    await unbanKey(env.DB, client.id, operator());
    pass(30_000);
    expect(await bannedUntil()).toBeNull();
  });
});

describe("the record of a ban", () => {
  const bansOf = async (id: string) =>
    (await listChanges(env.DB, id, 10)).filter(({ change }) => change === "banned");

  it("is one row, which shows in the key's record until the ban ends", async () => {
    const client = await newClient({ plan: "free" });
    await getBanned(client);
    const bannedUntilMs = Math.ceil((Date.now() + 600_000) / 1_000) * 1_000;
    await vi.waitFor(async () => expect(await bansOf(client.id)).toHaveLength(1));
    const [row] = await bansOf(client.id);
    expect(row).toMatchObject({ to: formatTime(bannedUntilMs), from: null, by: "rate limiter" });
    const record = () => findKeyById(env.DB, client.id, Date.now());
    expect(await record()).toMatchObject({ bannedUntilMs, bans: 1, states: ["banned"] });
    vi.setSystemTime(bannedUntilMs);
    expect(await record()).toMatchObject({ bannedUntilMs: null, bans: 1, states: ["active"] });
  });

  it("is also one row if isolates that decided it locally report different ends", async () => {
    const client = await newClient({ plan: "free" });
    const endsMs = [300_000, 301_000].map((ms) => Date.now() + ms);
    for (const bannedUntilMs of endsMs)
      await env.RATE_LIMITER.getByName(client.id).release(FREE, { ...NOTHING, bannedUntilMs });
    await vi.waitFor(async () => expect(await bansOf(client.id)).toHaveLength(1));
    await env.DB.prepare("SELECT 1").run();
    expect(await bansOf(client.id)).toHaveLength(1);
  });

  it("is missing if the database fails, and the ban is the same", async () => {
    const client = await newClient({ plan: "free" });
    const prepare = env.DB.prepare.bind(env.DB);
    vi.spyOn(env.DB, "prepare").mockImplementation((sql) => {
      if (sql.includes("key_changes")) throw new Error("D1_ERROR: the database is away");
      return prepare(sql);
    });
    takeLogLines();
    await getBanned(client);
    expect((await (await client.get("/v1/pets")).json<ErrorBody>()).code).toBe("key_banned");
    await vi.waitFor(() =>
      expect(takeLogLines()).toContainEqual(
        expect.objectContaining({ event: "ban_not_recorded", keyId: client.id }),
      ),
    );
  });
});
