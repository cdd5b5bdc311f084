// Mutants that no test needs to kill, each with the reason. They are identified by the text of their line, so that they may move;
// an entry that matches no mutant fails the run.

export interface Explanation {
  file: string;
  /** The line it is in, without indentation. */
  line: string;
  /** What is written there, and what the mutants have instead. */
  changes: (readonly [original: string, replacement: string])[];
  kind: "equivalent" | "types only" | "performance only" | "arbitrary value";
  /** One sentence. */
  reason: string;
}

const AT_1_MS = "A Unix time of 1 ms is as long ago as 0.";

export const EXPLAINED: Explanation[] = [
  // client-address.ts
  {
    file: "src/http/client-address.ts",
    line: 'const [head = "", tail] = address.toLowerCase().split("::");',
    changes: [['""', '"mutated"']],
    kind: "types only",
    reason: "What is split has a first part.",
  },
  {
    file: "src/http/client-address.ts",
    line: 'const after = tail === undefined || tail === "" ? [] : tail.split(":");',
    changes: [['tail === ""', "false"]],
    kind: "equivalent",
    reason: "There is then one zero less, but never one of the first four.",
  },
  // address-meter.ts
  {
    file: "src/rate-limit/anonymous.ts",
    line: "const MAX_ADDRESSES = 10_000;",
    changes: [["10_000", "10001"]],
    kind: "arbitrary value",
    reason: "It bounds memory.",
  },
  // headers.ts
  {
    file: "src/rate-limit/headers.ts",
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is the text of a line
    line: 'let state = `"minute";r=${left(decision, "minute")};t=${secondsToReset(decision, "minute")}`;',
    changes: [['"minute"', '""']],
    kind: "types only",
    reason: "For every name but day, windowOf returns the minute.",
  },
  {
    file: "src/rate-limit/headers.ts",
    line: 'const fewer = left(decision, "day") - left(decision, "minute");',
    changes: [['"minute"', '""']],
    kind: "types only",
    reason: "For every name but day, windowOf returns the minute.",
  },
  {
    file: "src/rate-limit/headers.ts",
    line: 'if (fewer !== 0) return fewer < 0 ? "day" : "minute";',
    changes: [
      ["<", "<="],
      ["0", "1"],
    ],
    kind: "equivalent",
    reason: "The difference is a whole number, and not 0 here.",
  },
  {
    file: "src/rate-limit/headers.ts",
    line: "return windows[name] ?? windows.minute;",
    changes: [["windows[name] ?? windows.minute", "windows[name]"]],
    kind: "types only",
    reason: "The day is only looked up if there is one.",
  },
  // middleware.ts
  {
    file: "src/rate-limit/middleware.ts",
    line: 'for (const name in values) headers.set(name, values[name] ?? "");',
    changes: [
      ['values[name] ?? ""', "values[name]"],
      ['""', '"mutated"'],
    ],
    kind: "types only",
    reason: "Each of the names has a value.",
  },
  // quota.ts
  {
    file: "src/rate-limit/object/quota.ts",
    line: "revision: 0,",
    changes: [["0", "1"]],
    kind: "equivalent",
    reason: "Revisions are only compared, and every change raises them to the current time.",
  },
  {
    file: "src/rate-limit/object/quota.ts",
    line: "refusals: { firstMs: 0, late: 0, maxLimit: 0 },",
    changes: [["0", "1"]],
    kind: "equivalent",
    reason: "The largest limit is at least the current one, which is 1 or more.",
  },
  {
    file: "src/rate-limit/object/quota.ts",
    line: "bannedUntilMs: 0,",
    changes: [["0", "1"]],
    kind: "equivalent",
    reason: AT_1_MS,
  },
  {
    file: "src/rate-limit/object/quota.ts",
    line: "const result = { ...statusOf(after, limits, nowMs), admitted, refused, ...(lease && { lease }) };",
    changes: [["lease", "true"]],
    kind: "types only",
    reason: "No caller distinguishes an undefined lease from a missing one.",
  },
  {
    file: "src/rate-limit/object/quota.ts",
    line: "const isLate = firstMs > 0 && arrivedMs > firstMs + BAN_GRACE_MS;",
    changes: [["0", "1"]],
    kind: "equivalent",
    reason: AT_1_MS,
  },
  // held-leases.ts
  {
    file: "src/rate-limit/isolate/held-leases.ts",
    line: '#latest = { id: "", requestedMs: Number.NEGATIVE_INFINITY, requests: 0 };',
    changes: [
      ['""', '"mutated"'],
      ["0", "1"],
    ],
    kind: "equivalent",
    reason: "No batch has that id, and the count is not used before the first lease request.",
  },
  {
    file: "src/rate-limit/isolate/held-leases.ts",
    line: "#streak = { startMs: 0, lastMs: Number.NEGATIVE_INFINITY };",
    changes: [["0", "1"]],
    kind: "equivalent",
    reason: "The first request begins a new streak.",
  },
  {
    file: "src/rate-limit/isolate/held-leases.ts",
    line: "const wanted = isFirst ? 0 : Math.ceil((HEADROOM * LEASE_MS * requests) / sampleMs);",
    changes: [["0", "1"]],
    kind: "equivalent",
    reason: "The smallest lease is larger.",
  },
  {
    file: "src/rate-limit/isolate/held-leases.ts",
    line: 'this.#latest.id = "";',
    changes: [['""', '"mutated"']],
    kind: "equivalent",
    reason: "No batch has that id.",
  },
  // limiter-client.ts
  {
    file: "src/rate-limit/isolate/limiter-client.ts",
    line: "const UNDECIDED_PAUSE_MS = 100;",
    changes: [["100", "99"]],
    kind: "arbitrary value",
    reason: "A pause that is 1 ms shorter serves as well.",
  },
  {
    file: "src/rate-limit/isolate/limiter-client.ts",
    line: "const REPORT_PAUSES_MS = [1_000, 3_000];",
    changes: [
      ["1_000", "1001"],
      ["3_000", "3001"],
    ],
    kind: "arbitrary value",
    reason: "Pauses that are 1 ms longer serve as well.",
  },
  {
    file: "src/rate-limit/isolate/limiter-client.ts",
    line: "const REPORT_INTERVAL_MS = 1_000;",
    changes: [["1_000", "1001"]],
    kind: "arbitrary value",
    reason: "An interval that is 1 ms longer serves as well.",
  },
  {
    file: "src/rate-limit/isolate/limiter-client.ts",
    line: "#limits: Limits = { minute: 0, day: 0 };",
    changes: [["0", "1"]],
    kind: "equivalent",
    reason: "Each request sets the limits before they are used.",
  },
  {
    file: "src/rate-limit/isolate/limiter-client.ts",
    line: "#busyUntilMs = 0;",
    changes: [["0", "1"]],
    kind: "equivalent",
    reason: AT_1_MS,
  },
  {
    file: "src/rate-limit/isolate/limiter-client.ts",
    line: "const known = this.known.wasBanned ? this.known.peek(limits) : undefined;",
    changes: [["this.known.wasBanned", "true"]],
    kind: "performance only",
    reason: "Without a ban, the result of peek is not used.",
  },
  {
    file: "src/rate-limit/isolate/limiter-client.ts",
    line: "return leftMs > 0 && leftMs <= MAX_CALL_MS;",
    changes: [["0", "1"]],
    kind: "arbitrary value",
    reason: "The pause is 1 ms shorter.",
  },
  {
    file: "src/rate-limit/isolate/call-object.ts",
    line: 'const callOnce = () => runtime.withDeadline("the limiter", CALL_DEADLINE_MS, call);',
    changes: [['"the limiter"', '""']],
    kind: "arbitrary value",
    reason: "The name is only part of an error message.",
  },
  {
    file: "src/rate-limit/isolate/limiter-client.ts",
    line: "const refusal = { admitted: false, nowMs, windows, ...(bannedUntilMs && { bannedUntilMs }) };",
    changes: [["bannedUntilMs", "true"]],
    kind: "types only",
    reason: "No caller distinguishes an undefined end of a ban from a missing one.",
  },
  {
    file: "src/rate-limit/isolate/limiter-client.ts",
    line: "const before = <Each extends Count>(each: Each) => ({ ...each, used: Math.max(0, each.used - later) });",
    changes: [["0", "1"]],
    kind: "arbitrary value",
    reason: "When an answer is repeated in a new window, Remaining is one less.",
  },
  {
    file: "src/rate-limit/isolate/limiter-client.ts",
    line: "if (Math.abs(nowMs - this.#lastReportMs) < REPORT_INTERVAL_MS) return;",
    changes: [["<", "<="]],
    kind: "arbitrary value",
    reason: "The interval is 1 ms longer.",
  },
  {
    file: "src/rate-limit/isolate/limiter-client.ts",
    line: "if (pauseMs > 0) await this.#runtime.wait(pauseMs);",
    changes: [
      ["pauseMs > 0", "true"],
      [">", ">="],
      ["0", "1"],
    ],
    kind: "performance only",
    reason: "A pause of 0 ms changes nothing else.",
  },
  {
    file: "src/rate-limit/isolate/limiter-client.ts",
    line: "if (report.released.length + report.outbox.length + report.bannedUntilMs === 0) return;",
    changes: [["+", "-"]],
    kind: "equivalent",
    reason: "The end of a ban is never equal to a number of leases or batches.",
  },
  {
    file: "src/rate-limit/isolate/limiter-client.ts",
    line: "return;",
    changes: [["return;", ""]],
    kind: "performance only",
    reason: "The next attempt finds nothing to report.",
  },
  // known-quota.ts
  {
    file: "src/rate-limit/isolate/known-quota.ts",
    line: "#localBanMs = 0;",
    changes: [["0", "1"]],
    kind: "equivalent",
    reason: AT_1_MS,
  },
  {
    file: "src/rate-limit/isolate/known-quota.ts",
    line: "const isBanned = nowMs < bannedUntilMs && this.#runtime.now() >= (this.#status?.receivedMs ?? 0);",
    changes: [["0", "1"]],
    kind: "equivalent",
    reason: AT_1_MS,
  },
  {
    file: "src/rate-limit/isolate/known-quota.ts",
    line: "const { admitted, bannedUntilMs = 0 } = result;",
    changes: [["0", "1"]],
    kind: "performance only",
    reason: "The isolate sends a report that changes nothing.",
  },
  {
    file: "src/rate-limit/isolate/known-quota.ts",
    line: "#store({ revision, nowMs, bannedUntilMs = 0, windows, leases }: Status): void {",
    changes: [["0", "1"]],
    kind: "equivalent",
    reason: AT_1_MS,
  },
  {
    file: "src/rate-limit/isolate/known-quota.ts",
    line: "const isOlder = revision === this.#quota.revision && nowMs < (this.#status?.madeMs ?? 0);",
    changes: [
      ["<", "<="],
      ["this.#status?.madeMs ?? 0", "this.#status?.madeMs"],
      ["0", "1"],
    ],
    kind: "equivalent",
    reason: "Two statuses with the same revision and time are the same, and the first status is never older.",
  },
  {
    file: "src/rate-limit/isolate/known-quota.ts",
    line: "return this.#quota.bannedUntilMs > 0;",
    changes: [
      ["this.#quota.bannedUntilMs > 0", "true"],
      [">", ">="],
      ["0", "1"],
    ],
    kind: "performance only",
    reason: "Without a ban, the result of peek is not used.",
  },
  // windows.ts
  {
    file: "src/rate-limit/windows.ts",
    line: "export const UNUSED_COUNT: Count = { startMs: 0, used: 0, refused: 0 };",
    changes: [["0", "1"]],
    kind: "equivalent",
    reason: "It is rolled over before it is used.",
  },
  // keys
  {
    file: "src/keys/admin.ts",
    line: "const ID_LENGTH = 12;",
    changes: [
      ["12", "13"],
      ["12", "11"],
    ],
    kind: "arbitrary value",
    reason: "Ids only have to differ.",
  },
  {
    file: "src/rate-limit/plans.ts",
    line: "export const MAX_LIMIT = 1_000_000_000;",
    changes: [["1_000_000_000", "1000000001"]],
    kind: "arbitrary value",
    reason: "Whoever makes a key meets it, at the command line, and is tested there.",
  },
  {
    file: "src/keys/lookup-throttle.ts",
    line: "const MAX_WAIT_MS = 2_000;",
    changes: [["2_000", "2001"]],
    kind: "arbitrary value",
    reason: "A wait that is 1 ms longer serves as well.",
  },
  {
    file: "src/keys/lookup-throttle.ts",
    line: "const MAX_BUCKETS = 10_000;",
    changes: [["10_000", "10001"]],
    kind: "arbitrary value",
    reason: "It bounds memory.",
  },
  {
    file: "src/keys/lookup-throttle.ts",
    line: 'super("too many keys of one address are being looked up");',
    changes: [['"too many keys of one address are being looked up"', '""']],
    kind: "arbitrary value",
    reason: "The text is only logged.",
  },
  {
    file: "src/keys/lookup-throttle.ts",
    line: "if (others.length > 0) this.#running.set(bucket, others);",
    changes: [
      ["others.length > 0", "true"],
      [">", ">="],
    ],
    kind: "performance only",
    reason: "An empty list counts like a missing one, but takes memory.",
  },
  {
    file: "src/keys/authenticate.ts",
    line: "const MAX_KEYS = 10_000;",
    changes: [["10_000", "10001"]],
    kind: "arbitrary value",
    reason: "It bounds memory.",
  },
  {
    file: "src/keys/authenticate.ts",
    line: "const MAX_HASHES = 1_000;",
    changes: [["1_000", "1001"]],
    kind: "arbitrary value",
    reason: "It bounds memory.",
  },
  {
    file: "src/keys/authenticate.ts",
    line: "if (secret !== undefined && hash !== undefined && key !== null && !this.#hashes.has(secret)) {",
    changes: [
      ["secret !== undefined", "true"],
      ["secret !== undefined", "false"],
      ["hash !== undefined", "true"],
      ["hash !== undefined", "false"],
      ["key !== null", "true"],
      ["key !== null", "false"],
      ["this.#hashes.has(secret)", "true"],
      ["this.#hashes.has(secret)", "false"],
    ],
    kind: "performance only",
    reason: "It saves hashing a secret again; without a secret there is neither a hash nor a key.",
  },
  {
    file: "src/keys/authenticate.ts",
    line: "this.#hashes.set(secret, hash);",
    changes: [["this.#hashes.set(secret, hash);", ""]],
    kind: "performance only",
    reason: "It saves hashing a secret again.",
  },
  {
    file: "src/keys/admin.ts",
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is the text of a line
    line: 'if (state === "active") throw new Error(`${id} could not be changed, though it is active`);',
    changes: [
      ['state === "active"', "false"],
      // biome-ignore lint/suspicious/noTemplateCurlyInString: it is the text of a line
      ["throw new Error(`${id} could not be changed, though it is active`);", ""],
    ],
    kind: "types only",
    reason: "What could not be changed is not active.",
  },
  {
    file: "src/keys/require-key.ts",
    line: 'const { key, problem = "missing" } = c.get("caller") ?? {};',
    changes: [
      ['"missing"', '""'],
      ['c.get("caller") ?? {}', 'c.get("caller")'],
    ],
    kind: "types only",
    reason: "Who calls was found out before.",
  },
  {
    file: "src/keys/store.ts",
    line: "return results[2]?.results[0] ?? null;",
    changes: [["?.", "."]],
    kind: "types only",
    reason: "A batch of three statements has three results.",
  },
  {
    file: "src/keys/store.ts",
    line: "return { ...key, limits: PLAN_LIMITS[key.plan] ?? { minute: perMinute ?? 0, day: perDay ?? 0 } };",
    changes: [
      ["perMinute ?? 0", "perMinute"],
      ["perDay ?? 0", "perDay"],
      ["0", "1"],
    ],
    kind: "types only",
    reason: "The schema of the table has limits exactly where the plan has none.",
  },
];
