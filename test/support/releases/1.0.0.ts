// What release 1.0.0 sends and stores, each with all fields that it can have. It never changes: later releases must read it.

const RECORD = {
  id: "key_000000000000",
  plan: "enterprise",
  limits: { minute: 300, day: 30_000 },
  expiresAtMs: null,
  revokedAtMs: null,
  suspendedAtMs: null,
  bansLiftedUntilMs: 0,
  secrets: [{ hash: "the first secret", goodUntilMs: null }],
};

const WINDOWS = {
  minute: { seconds: 60, startMs: 1_795_350_840_000, used: 158, limit: 300 },
  day: { seconds: 86_400, startMs: 1_795_305_600_000, used: 158, limit: 30_000 },
};

const LEASE = { id: 14, size: 4, grantedMs: 1_795_350_857_262, durationMs: 2_000 };

const DAY = {
  date: "2026-11-22",
  admitted: 158,
  refusedBy: { minute: 3, day: 2 },
  busiest: { minute: 144 },
  lastAdmittedMs: 1_795_350_859_247,
  lastRefusedMs: 1_795_350_730_000,
};

const STATUS = {
  revision: 1_795_350_859_950,
  nowMs: 1_795_350_859_950,
  windows: WINDOWS,
  leased: { minute: 20, day: 20 },
  bannedUntilMs: 1_795_351_460_000,
};

export const request = {
  isolate: "coSO9LeCtR",
  number: 19,
  revision: 1_795_350_858_072,
  requests: 2,
  recent: 3.5,
  wantsLease: true,
  lease: { id: 15, used: 6, isOver: true },
  decisions: [{ number: 18, atMs: 1_795_350_858_957, admitted: 2, refusedBy: { minute: 1, day: 1 } }],
  secret: "the first secret",
};

/** To a question about a secret. */
export const identified = { key: RECORD, usableMs: 26_719, isNew: false, loadMs: 12 };

export const answer = {
  ...identified,
  result: { ...STATUS, admitted: 1, refused: 0, share: 0.25, retryMs: 1_795_350_860_950, lease: LEASE },
};

export const usage = { ...identified, usage: { status: STATUS, days: [DAY] } };

export const noRecord = { unavailable: "Error: the primary is away", loadMs: 2_000 };

export const stored = {
  version: 1,
  keyId: "key_000000000000",
  quota: {
    revision: 1_795_350_879_247,
    counts: {
      minute: { seconds: 60, startMs: 1_795_350_840_000, used: 158 },
      day: { seconds: 86_400, startMs: 1_795_305_600_000, used: 158 },
    },
    refusals: { firstMs: 0, late: 0, maxLimit: 300 },
    unleasedUntilMs: 0,
    bannedUntilMs: 0,
    reported: 147,
    isolates: new Map([
      [
        "coSO9LeCtR",
        {
          number: 18,
          admitted: 1,
          refusedBy: { minute: 1, day: 1 },
          recent: 3.5,
          seenMs: 1_795_350_857_262,
          lately: 14.5,
          leaseMs: 2_000,
          lease: { ...LEASE, used: 0, renewedMs: 1_795_350_857_262 },
        },
      ],
    ]),
    totals: { days: [DAY], latest: { minute: [{ startMs: 1_795_350_840_000, requests: 144 }] } },
  },
  read: { key: RECORD, readMs: 1_795_350_855_218 },
  unwritten: { banMs: Number.POSITIVE_INFINITY, days: ["2026-11-22"], usageMs: 1_795_350_900_104 },
};
