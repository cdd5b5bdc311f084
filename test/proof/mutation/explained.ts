// Mutants that no test needs to notice, each with the reason. They are known by the text of their line, so that they stay
// known when lines move; an explanation that fits no mutant any more fails the run.

export interface Explanation {
  file: string;
  /** The line it is in, without indentation. */
  line: string;
  /** What is written there, and what the mutants have instead. */
  changes: (readonly [original: string, replacement: string])[];
  kind: "equivalent" | "asks the types" | "only speed" | "may be another";
  /** One sentence. */
  reason: string;
}

const AT_1_MS = "A Unix time of 1 ms is as long ago as 0.";
const TWO_WINDOWS = "There are always two windows, in the same order; the types can't say so.";

export const EXPLAINED: Explanation[] = [
  // address-meter.ts
  {
    file: "src/rate-limit/address-meter.ts",
    line: 'const [head = "", tail] = address.toLowerCase().split("::");',
    changes: [['""', '"mutated"']],
    kind: "asks the types",
    reason: "What is split has a first part.",
  },
  {
    file: "src/rate-limit/address-meter.ts",
    line: 'const after = tail === undefined || tail === "" ? [] : tail.split(":");',
    changes: [['tail === ""', "false"]],
    kind: "equivalent",
    reason: "There is then one zero less, but never one of the first four.",
  },
  {
    file: "src/rate-limit/address-meter.ts",
    line: "const MAX_ADDRESSES = 10_000;",
    changes: [["10_000", "10001"]],
    kind: "may be another",
    reason: "It bounds memory.",
  },
  // headers.ts
  {
    file: "src/rate-limit/headers.ts",
    line: 'for (const name in values) headers.set(name, values[name] ?? "");',
    changes: [
      ['values[name] ?? ""', "values[name]"],
      ['""', '"mutated"'],
    ],
    kind: "asks the types",
    reason: "Each of the names has a value.",
  },
  {
    file: "src/rate-limit/headers.ts",
    line: "if (nearer !== 0) return nearer < 0 ? each : named;",
    changes: [
      ["<", "<="],
      ["0", "1"],
    ],
    kind: "equivalent",
    reason: "It is a whole number, and not 0 here.",
  },
  {
    file: "src/rate-limit/headers.ts",
    line: "return later > 0 || (later === 0 && decision.bannedUntilMs === undefined) ? each : named;",
    changes: [["later === 0", "true"]],
    kind: "equivalent",
    reason: "Without a ban the day never ends before the minute.",
  },
  // key-meter.ts
  {
    file: "src/rate-limit/key-meter.ts",
    line: "#asOfMs = 0;",
    changes: [["0", "1"]],
    kind: "equivalent",
    reason: AT_1_MS,
  },
  {
    file: "src/rate-limit/key-meter.ts",
    line: "remember({ windows, bannedUntilMs = 0, nowMs }: Decision): void {",
    changes: [["0", "1"]],
    kind: "equivalent",
    reason: AT_1_MS,
  },
  {
    file: "src/rate-limit/key-meter.ts",
    line: "return { decision: { admitted: true, nowMs, windows: count(windows, -laterOnes, 0) } };",
    changes: [["0", "1"]],
    kind: "equivalent",
    reason: "Who is let in is not told of refusals.",
  },
  {
    file: "src/rate-limit/key-meter.ts",
    line: "const single = { id: newTakeId(), unreported: [], bannedUntilMs: 0 };",
    changes: [["0", "1"]],
    kind: "equivalent",
    reason: AT_1_MS,
  },
  {
    file: "src/rate-limit/key-meter.ts",
    line: "this.#unreported.reduce((sum, { atMs, requests = 1 }) => sum + (atMs >= startMs ? requests : 0), 0);",
    changes: [
      ["1", "2"],
      ["1", "0"],
    ],
    kind: "asks the types",
    reason: "Only callers of an earlier version leave the number out; what is kept here always has it.",
  },
  {
    file: "src/rate-limit/key-meter.ts",
    line: "return later(this.#meter.windows[index] ?? complete, complete, isNewer);",
    changes: [["this.#meter.windows[index] ?? complete", "this.#meter.windows[index]"]],
    kind: "asks the types",
    reason: TWO_WINDOWS,
  },
  {
    file: "src/rate-limit/key-meter.ts",
    line: "if (this.#answer === undefined || !this.#leases.use(nowMs)) return undefined;",
    changes: [["this.#answer === undefined", "false"]],
    kind: "asks the types",
    reason: "Before the first answer there is no lease either.",
  },
  {
    file: "src/rate-limit/key-meter.ts",
    line: "const leaseTime = wish.size > 0 ? this.#clock.wait(wish.forMs) : undefined;",
    changes: [
      ["wish.size > 0", "true"],
      [">", ">="],
    ],
    kind: "only speed",
    reason: "It starts a timer that nobody waits for.",
  },
  {
    file: "src/rate-limit/key-meter.ts",
    line: "const leaseTime = wish.size > 0 ? this.#clock.wait(wish.forMs) : undefined;",
    changes: [["0", "1"]],
    kind: "equivalent",
    reason: "Nobody wishes for one.",
  },
  {
    file: "src/rate-limit/key-meter.ts",
    line: "if (wish.size > 0) this.#leases.lose(take.id, wish.size);",
    changes: [["0", "1"]],
    kind: "equivalent",
    reason: "Nobody wishes for one.",
  },
  {
    file: "src/rate-limit/key-meter.ts",
    line: "const results = decideAlone({ ...take, id: newTakeId(), requests: waiting.length, unreported: [] });",
    changes: [["take", "{}"]],
    kind: "asks the types",
    reason: "What is decided alone asks for no lease and gives none back.",
  },
  {
    file: "src/rate-limit/key-meter.ts",
    line: "return own > 0 ? counted[0] : undefined;",
    changes: [
      ["own > 0", "true"],
      [">", ">="],
    ],
    kind: "equivalent",
    reason: "Whoever has no request of its own looks at no result.",
  },
  {
    file: "src/rate-limit/key-meter.ts",
    line: "if (each !== undefined) each.result = result;",
    changes: [["each !== undefined", "true"]],
    kind: "asks the types",
    reason: "There are never more results than requests that wait.",
  },
  {
    file: "src/rate-limit/key-meter.ts",
    line: "return some.every(({ startMs }, index) => startMs === others[index]?.startMs);",
    changes: [["?.", "."]],
    kind: "asks the types",
    reason: TWO_WINDOWS,
  },
  {
    file: "src/rate-limit/key-meter.ts",
    line: "if (one.startMs !== other.startMs) return one.startMs > other.startMs ? one : other;",
    changes: [[">", ">="]],
    kind: "equivalent",
    reason: "They are not the same here.",
  },
  // lease.ts
  {
    file: "src/rate-limit/lease.ts",
    line: "#uses = 0;",
    changes: [["0", "1"]],
    kind: "equivalent",
    reason: "The first lease sets it to 0, and before that nobody reads it.",
  },
  {
    file: "src/rate-limit/lease.ts",
    line: "#lastUseMs = 0;",
    changes: [["0", "1"]],
    kind: "equivalent",
    reason: AT_1_MS,
  },
  {
    file: "src/rate-limit/lease.ts",
    line: "return this.#lost.length === 0 ? this.#leftOver : [...this.#leftOver, ...this.#lost];",
    changes: [["this.#lost.length === 0", "false"]],
    kind: "only speed",
    reason: "It makes a list that has the same elements.",
  },
  // limiter.ts
  {
    file: "src/rate-limit/limiter.ts",
    line: "request: Take = { id: randomBase62(TAKE_ID_LENGTH), unreported: [], bannedUntilMs: 0 },",
    changes: [["0", "1"]],
    kind: "equivalent",
    reason: AT_1_MS,
  },
  {
    file: "src/rate-limit/limiter.ts",
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is the text of a line
    line: "slot INTEGER PRIMARY KEY CHECK (slot BETWEEN 0 AND ${DAYS_KEPT - 1}),",
    changes: [
      ["-", "+"],
      ["1", "0"],
    ],
    kind: "equivalent",
    reason: "No slot is greater: they are remainders.",
  },
  {
    file: "src/rate-limit/limiter.ts",
    line: "const UNUSED_RESERVATION: Reservation = { meter: UNUSED_METER, ahead: 0, burnt: [0, 0] };",
    changes: [
      ["0", "1"],
      ["[0, 0]", "[]"],
    ],
    kind: "equivalent",
    reason: "What was burnt in windows of 1970 counts in no other.",
  },
  {
    file: "src/rate-limit/limiter.ts",
    line: 'meter.windows.find((window) => window.name === "day" && window.startMs === startMs) ?? {};',
    changes: [['window.name === "day"', "true"]],
    kind: "equivalent",
    reason: "A minute that begins with its day has counted the same.",
  },
  {
    file: "src/rate-limit/limiter.ts",
    line: "storeDay(storage, { ...this.#stored, meter: before, ahead: 0 });",
    changes: [["0", "1"]],
    kind: "equivalent",
    reason: "Of a day that is over only the totals are read.",
  },
  {
    file: "src/rate-limit/limiter.ts",
    line: '{ ...unusedWindow("minute", 0), ...minute },',
    changes: [["0", "1"]],
    kind: "equivalent",
    reason: "The limits come with each request.",
  },
  {
    file: "src/rate-limit/limiter.ts",
    line: '{ ...unusedWindow("day", 0), ...day },',
    changes: [["0", "1"]],
    kind: "equivalent",
    reason: "The limits come with each request.",
  },
  {
    file: "src/rate-limit/limiter.ts",
    line: 'return windows.find(({ name }) => name === "day")?.startMs ?? 0;',
    changes: [
      [
        'windows.find(({ name }) => name === "day")?.startMs ?? 0',
        'windows.find(({ name }) => name === "day")?.startMs',
      ],
      ["?.", "."],
      ["0", "1"],
    ],
    kind: "asks the types",
    reason: TWO_WINDOWS,
  },
  // meter.ts
  {
    file: "src/rate-limit/meter.ts",
    line: 'windows: [unusedWindow("minute", 0), unusedWindow("day", 0)],',
    changes: [["0", "1"]],
    kind: "equivalent",
    reason: "The limits come with each request.",
  },
  {
    file: "src/rate-limit/meter.ts",
    line: "bannedUntilMs: 0,",
    changes: [["0", "1"]],
    kind: "equivalent",
    reason: AT_1_MS,
  },
  {
    file: "src/rate-limit/meter.ts",
    line: "const lease = admitted ? grant(id, wish, counted, nowMs) : undefined;",
    changes: [["admitted", "true"]],
    kind: "only speed",
    reason: "If not all were admitted, nothing is left that could be leased.",
  },
  {
    file: "src/rate-limit/meter.ts",
    line: "verdict: { ...decision, ...(isBanned && { bannedUntilMs }), ...(lease && { lease }) },",
    changes: [["lease", "true"]],
    kind: "asks the types",
    reason: "Nobody tells a lease that is undefined from none.",
  },
  {
    file: "src/rate-limit/meter.ts",
    line: "const age = lease === undefined ? 0 : Math.max(0, before.nowMs - lease.atMs);",
    changes: [["0", "1"]],
    kind: "equivalent",
    reason: "Where there is no lease, nobody looks at its age.",
  },
  // reservation.ts
  {
    file: "src/rate-limit/reservation.ts",
    line: "return startMs === before?.startMs && used <= before.used && refused === before.refused;",
    changes: [["?.", "."]],
    kind: "asks the types",
    reason: TWO_WINDOWS,
  },
  {
    file: "src/rate-limit/reservation.ts",
    line: "const gaveBack = take.unused?.some(({ id }) => leases.some((lease) => lease.id === id)) ?? false;",
    changes: [
      [
        "take.unused?.some(({ id }) => leases.some((lease) => lease.id === id)) ?? false",
        "take.unused?.some(({ id }) => leases.some((lease) => lease.id === id))",
      ],
    ],
    kind: "asks the types",
    reason: "Undefined is as good as false here.",
  },
  {
    file: "src/rate-limit/reservation.ts",
    line: "return meter.windows.every(({ used }, index) => used === stored.meter.windows[index]?.used);",
    changes: [["?.", "."]],
    kind: "asks the types",
    reason: TWO_WINDOWS,
  },
  {
    file: "src/rate-limit/reservation.ts",
    line: "startMs === stored.meter.windows[index]?.startMs ? (stored.burnt[index] ?? 0) : 0,",
    changes: [
      ["?.", "."],
      ["stored.burnt[index] ?? 0", "stored.burnt[index]"],
      ["0", "1"],
    ],
    kind: "asks the types",
    reason: TWO_WINDOWS,
  },
  {
    file: "src/rate-limit/reservation.ts",
    line: "Math.floor(limits[window.name] / BURN_SHARE) - (burnt[index] ?? 0),",
    changes: [
      ["burnt[index] ?? 0", "burnt[index]"],
      ["0", "1"],
    ],
    kind: "asks the types",
    reason: TWO_WINDOWS,
  },
  {
    file: "src/rate-limit/reservation.ts",
    line: "const isQuick = atMs !== undefined && atMs <= nowMs && nowMs - atMs < QUICK_MS;",
    changes: [["atMs !== undefined", "true"]],
    kind: "asks the types",
    reason: "No number is greater than undefined.",
  },
  // window.ts
  {
    file: "src/rate-limit/window.ts",
    line: "return { name, limit, startMs: 0, used: 0, refused: 0 };",
    changes: [["0", "1"]],
    kind: "equivalent",
    reason: "It rolls over, and begins at 0, before anybody looks at it.",
  },
  // guesses.ts
  {
    file: "src/keys/guesses.ts",
    line: "const FIRST_LOOK_MS = 1;",
    changes: [
      ["1", "2"],
      ["1", "0"],
    ],
    kind: "may be another",
    reason: "It is how soon somebody looks.",
  },
  {
    file: "src/keys/guesses.ts",
    line: "const LOOK_GROWTH = 1.5;",
    changes: [
      ["1.5", "2.5"],
      ["1.5", "0.5"],
    ],
    kind: "may be another",
    reason: "It is how often somebody looks.",
  },
  {
    file: "src/keys/guesses.ts",
    line: "const MAX_LOOK_MS = 50;",
    changes: [
      ["50", "51"],
      ["50", "49"],
    ],
    kind: "may be another",
    reason: "It is how often somebody looks.",
  },
  {
    file: "src/keys/guesses.ts",
    line: "const MAX_ADDRESSES = 10_000;",
    changes: [["10_000", "10001"]],
    kind: "may be another",
    reason: "It bounds memory.",
  },
  {
    file: "src/keys/guesses.ts",
    line: "if (others.length > 0) this.#underway.set(address, others);",
    changes: [
      ["others.length > 0", "true"],
      [">", ">="],
    ],
    kind: "equivalent",
    reason: "An empty list is as good as none; it only takes memory.",
  },
  {
    file: "src/keys/guesses.ts",
    line: "lookMs = Math.min(LOOK_GROWTH * lookMs, MAX_LOOK_MS);",
    changes: [
      ["lookMs = Math.min(LOOK_GROWTH * lookMs, MAX_LOOK_MS);", ""],
      ["Math.min", "Math.max"],
      ["*", "/"],
    ],
    kind: "may be another",
    reason: "It is how often somebody looks.",
  },
  {
    file: "src/keys/guesses.ts",
    line: "clearTimeout(timer);",
    changes: [["clearTimeout(timer);", ""]],
    kind: "equivalent",
    reason: "The timer then sets what nobody looks at any more.",
  },
  // keys
  {
    file: "src/keys/manage.ts",
    line: "const ID_LENGTH = 12;",
    changes: [
      ["12", "13"],
      ["12", "11"],
    ],
    kind: "may be another",
    reason: "Ids only have to differ.",
  },
  {
    file: "src/keys/plans.ts",
    line: "export const MAX_LIMIT = 1_000_000_000;",
    changes: [["1_000_000_000", "1000000001"]],
    kind: "may be another",
    reason: "Whoever makes a key meets it, at the command line, and is tested there.",
  },
  {
    file: "src/keys/identify.ts",
    line: "const MAX_LOOKUPS = 10_000;",
    changes: [["10_000", "10001"]],
    kind: "may be another",
    reason: "It bounds memory.",
  },
  {
    file: "src/keys/identify.ts",
    line: "const MAX_OUTAGES = 1_000;",
    changes: [["1_000", "1001"]],
    kind: "may be another",
    reason: "It bounds memory.",
  },
  {
    file: "src/keys/identify.ts",
    line: "const MAX_HASHES = 1_000;",
    changes: [["1_000", "1001"]],
    kind: "may be another",
    reason: "It bounds memory.",
  },
  {
    file: "src/rate-limit/key-meters.ts",
    line: "const MAX_METERS = 5_000;",
    changes: [["5_000", "5001"]],
    kind: "may be another",
    reason: "It bounds memory.",
  },
  {
    file: "src/rate-limit/rate-limit.ts",
    line: "const MAX_INSTANTS = 1_000;",
    changes: [["1_000", "1001"]],
    kind: "may be another",
    reason: "It bounds memory.",
  },
  {
    file: "src/rate-limit/rate-limit.ts",
    line: 'const key = c.get("caller")?.key;',
    changes: [["?.", "."]],
    kind: "asks the types",
    reason: "Who calls was found out before.",
  },
  {
    file: "src/rate-limit/rate-limit.ts",
    line: "if (known !== undefined) return known;",
    changes: [["known !== undefined", "false"]],
    kind: "only speed",
    reason: "The text is made once more.",
  },
  {
    file: "src/rate-limit/rate-limit.ts",
    line: "instants.set(ms, text);",
    changes: [["instants.set(ms, text);", ""]],
    kind: "only speed",
    reason: "The text is made once more.",
  },
  {
    file: "src/rate-limit/rate-limit.ts",
    line: "const decision = taken instanceof Promise ? await taken : taken;",
    changes: [["taken instanceof Promise", "true"]],
    kind: "only speed",
    reason: "It waits for what is there.",
  },
  {
    file: "src/keys/identify.ts",
    line: 'c.set("caller", found instanceof Promise ? await found : found);',
    changes: [["found instanceof Promise", "true"]],
    kind: "only speed",
    reason: "It waits for what is there.",
  },
  {
    file: "src/keys/identify.ts",
    line: 'c.set("caller", { problem: "missing" });',
    changes: [
      ['c.set("caller", { problem: "missing" });', ""],
      ['"caller"', '""'],
    ],
    kind: "equivalent",
    reason: "Of whom nothing is known is answered as who sent no key.",
  },
  {
    file: "src/keys/identify.ts",
    line: "if (hash === undefined) {",
    changes: [["hash === undefined", "true"]],
    kind: "only speed",
    reason: "It hashes the secret once more.",
  },
  {
    file: "src/keys/identify.ts",
    line: "if (flights.isUnderway(hash)) return;",
    changes: [
      ["flights.isUnderway(hash)", "false"],
      ["return;", ""],
    ],
    kind: "only speed",
    reason: "It would wait for the same look-up.",
  },
  {
    file: "src/keys/identify.ts",
    line: "if (!hashes.has(secret)) hashes.set(secret, hash);",
    changes: [
      ["hashes.has(secret)", "true"],
      ["hashes.has(secret)", "false"],
      ["hashes.set(secret, hash);", ""],
    ],
    kind: "only speed",
    reason: "It saves hashing a secret again.",
  },
  {
    file: "src/keys/manage.ts",
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is the text of a line
    line: 'if (state === "active") throw new Error(`${id} could not be changed, though it is active`);',
    changes: [
      ['state === "active"', "false"],
      // biome-ignore lint/suspicious/noTemplateCurlyInString: it is the text of a line
      ["throw new Error(`${id} could not be changed, though it is active`);", ""],
    ],
    kind: "asks the types",
    reason: "What could not be changed is not active.",
  },
  {
    file: "src/keys/require-key.ts",
    line: 'const { key, problem = "missing" } = c.get("caller") ?? {};',
    changes: [
      ['"missing"', '""'],
      ['c.get("caller") ?? {}', 'c.get("caller")'],
    ],
    kind: "asks the types",
    reason: "Who calls was found out before.",
  },
  {
    file: "src/keys/store.ts",
    line: "return results[2]?.results[0] ?? null;",
    changes: [["?.", "."]],
    kind: "asks the types",
    reason: "A batch of three statements has three results.",
  },
  {
    file: "src/keys/store.ts",
    line: "limits: PLAN_LIMITS[row.plan] ?? { minute: row.per_minute ?? 0, day: row.per_day ?? 0 },",
    changes: [
      ["row.per_minute ?? 0", "row.per_minute"],
      ["row.per_day ?? 0", "row.per_day"],
      ["0", "1"],
    ],
    kind: "asks the types",
    reason: "The schema of the table has limits exactly where the plan has none.",
  },
];
