// One key on virtual time: the real Durable Object class on a storage that can crash, isolates with what they really know of keys, and a
// network whose delays and faults the scenario chooses, also that to the primary of the keys database. platform.ts has what Cloudflare does
// to their code, checks.ts the guarantees.

import type { SQLInputValue } from "node:sqlite";
import type { Key } from "../../src/keys/key.ts";
import type { ByWindow, Decision } from "../../src/limits/windows.ts";
import { KEY_ID, NO_REQUESTS } from "../support/key-record.ts";
import { Checks, type ChecksOptions, Isolate, USAGE } from "./checks.ts";
import { type Owner, Platform, type PlatformOptions } from "./platform.ts";
import {
  type AcquireAnswer,
  type AcquireRequest,
  contentOf,
  IsolatePort,
  type LimiterObject,
  type Memory,
  type NoKey,
  newObject,
  type Status,
  type Stored,
  storedAfter,
  withoutRecord,
} from "./port.ts";
import { nextTurn } from "./timeline.ts";

export { FIRST_SECRET } from "./checks.ts";
export type { Isolate };

/** What the object stores, with its alarm. */
type State = Stored & { alarmMs: number };

/** An object that has got a call in this time does not sleep. */
const AWAKE_MS = 10_000;
/** The object gives a lease up 3 s after its end; a report may wait for a second for its turn, and take as long as a retry. */
const LONG_FREEZE_MS = 1_500;

/** A storage whose writes become durable later, in order. A crash loses the others. */
class Storage {
  durable: State | undefined;
  writing: State[] = [];
  get latest(): State | undefined {
    return this.writing.at(-1) ?? this.durable;
  }
}

/** A life of the object: it ends with a crash or an eviction. What is stored may have more charged than what it has in memory. */
type Life = {
  object: LimiterObject;
  memory: Memory | undefined;
  /** Whether another object has taken its place. Then it does not notice that until it stores something. */
  isReplaced: boolean;
  isAlive: boolean;
  calls: number;
  ended: Promise<undefined>;
  end: () => void;
};

/** A call under way. The scenario delivers it, returns its result, or makes it fail. */
export interface Message {
  isolate: Isolate;
  request: AcquireRequest;
  /** Whether it is the retry of a call. */
  isRetry: boolean;
  /**
   * Has the object execute it. Resolves with a function that returns the result, to be called once the writes are durable; with
   * nothing if the object has crashed meanwhile.
   */
  deliver(): Promise<(() => void) | undefined>;
  fail(error: object): unknown;
}

/** A read of the key at the primary, like a message. */
export interface Read {
  deliver(): () => void;
  fail(error: object): unknown;
}

/** Returns a message or what is stored as another release has written it. */
export type Alter = <Value extends object>(what: "request" | "answer" | "stored", value: Value) => Value;

export interface Options extends ChecksOptions, PlatformOptions {
  /** Handles a message. */
  send: (message: Message) => void;
  /** Handles a read; by default it succeeds at once. */
  read?: (read: Read) => void;
  /** Handles a write to the keys database; by default it succeeds at once. */
  write?: (execute: () => void) => Promise<void>;
  /** Makes the writes of an alarm durable; by default at once. */
  persist?: () => void;
  onAnswer?: (answer: object) => void;
  /** What another release makes of a message or of what is stored, between the two sides. */
  alter?: Alter;
}

export class World extends Checks {
  readonly storage = new Storage();
  /** The lead of the object's clock over virtual time. */
  objectAheadMs = 0;
  protected override readonly platform: Platform;
  protected override replaced: Life | undefined;
  readonly #options: Options;
  #life: Life;
  /** When the object has last got or answered a call (virtual time). */
  #activeMs = Number.NEGATIVE_INFINITY;
  /** The alarm that is set or runs. */
  #alarmMs = Number.POSITIVE_INFINITY;
  /** The alarm that the object has set since it stored its state. */
  #newAlarmMs: number | undefined;

  constructor(options: Options) {
    super(options);
    this.#options = options;
    this.platform = new Platform(this.time, options, (error) => this.expectUnavailable(error));
    this.#life = this.#newLife();
  }

  override get objectNowMs(): number {
    return this.time.nowMs + this.objectAheadMs;
  }

  protected override get memory(): Memory | undefined {
    return this.#life.memory;
  }

  /** An operator changes the key. */
  change(change: Partial<Key>): void {
    this.versions.push({ fromMs: this.time.nowMs, key: { ...this.key, ...change } });
  }

  /** Runs everything that follows from the last event at this instant. */
  async settle(): Promise<void> {
    do {
      await nextTurn();
      this.throwFailure();
    } while (this.platform.resumeDone());
  }

  /** Runs events until there is none except alarms, or until a time. */
  run(untilMs?: number): Promise<void> {
    return this.time.run(untilMs, () => this.settle());
  }

  // Isolates.

  newIsolate(aheadMs = 0): Isolate {
    const isolate = new Isolate(aheadMs);
    this.evictKey(isolate);
    this.isolates.push(isolate);
    return isolate;
  }

  /** Has an isolate forget the key, as if it had been evicted. */
  evictKey(isolate: Isolate): void {
    const failedSecrets = new Set<string>();
    isolate.port = new IsolatePort(this.service, {
      runtime: this.platform.runtimeOf(isolate, () => this.platform.ioMs + isolate.aheadMs),
      objectOf: () => this.#stub(isolate, failedSecrets) as never,
      load: () => this.#read(isolate),
    });
    isolate.ids.add(isolate.calls.id);
    isolate.shown.clear();
    isolate.admitted.clear();
  }

  /** For so long, nothing runs in an isolate. After a long freeze its lease comes back when the object has refused requests for want of it. */
  freeze(isolate: Isolate, ms: number): void {
    isolate.frozenUntilMs = this.time.nowMs + ms;
    if (ms > LONG_FREEZE_MS) this.isDirty = true;
  }

  /** Ends an isolate. Its requests get no decisions, and its leases and calls are lost. */
  end(isolate: Isolate): void {
    isolate.isAlive = false;
    this.noteEnd(isolate);
  }

  /** Sends one request through an isolate. Returns nothing if the secret is not valid, or if nobody can tell. */
  ask(isolate: Isolate, secret = this.key.secrets[0]?.hash ?? ""): Promise<Decision | undefined> {
    return this.platform.request(isolate, async () => {
      const asked = this.arrive(isolate, secret);
      const { isJudged, answer } = isolate.port.ask({
        credential: { id: KEY_ID, hash: secret },
        arrivedMs: asked.clockMs,
        buckets: () => [],
        onObjectFailure: () => {
          asked.isLocal = true;
        },
      });
      asked.isJudged = isJudged;
      return this.leave(asked, await answer.catch((error) => void this.expectUnavailable(error)));
    });
  }

  // The network, and the primary.

  /** `failedSecrets`: about which the isolate will ask again. */
  #stub(isolate: Isolate, failedSecrets: Set<string>) {
    const send = <Answer extends object>(
      request: AcquireRequest,
      isRetry: boolean,
      execute: () => Promise<Answer | undefined>,
    ) =>
      new Promise<Answer>((resolve, reject) => {
        const resume = this.platform.resumeOf(isolate);
        const deliver = async () => {
          const answer = await execute();
          if (answer === undefined) return undefined;
          this.#options.onAnswer?.(answer);
          const { crashes } = this;
          return () => {
            if (this.crashes !== crashes) return;
            resume(() => {
              const { result } = answer as Partial<AcquireAnswer>;
              // Otherwise an earlier attempt may have been counted.
              if (result !== undefined) this.underway.delete(request);
              this.noteToldBan(result?.bannedUntilMs);
              resolve(this.#alter("answer", answer));
            });
          };
        };
        const fail = (error: object) => {
          if (request.isolate === "" && !isRetry) failedSecrets.add(request.secret ?? "");
          resume(() => reject(error));
        };
        this.#options.send({ isolate, request, isRetry, deliver, fail });
      });
    const acquire = (request: AcquireRequest) => {
      const isRetry = this.underway.has(request);
      if (!isRetry) this.expectFewCalls(isolate, request.isolate);
      this.underway.add(request);
      return send(request, isRetry, () => this.#execute(request, isolate, isRetry));
    };
    const identify = (secret: string) => {
      const isRetry = failedSecrets.delete(secret);
      const request = { ...NO_REQUESTS, isolate: "", number: 0, secret };
      return send(request, isRetry, () => this.#answer(isRetry, ({ object }) => object.identify(secret)));
    };
    return { acquire, identify };
  }

  #alter<Value extends object>(what: Parameters<Alter>[0], value: Value): Value {
    return this.#options.alter?.(what, value) ?? value;
  }

  async #execute(
    request: AcquireRequest,
    isolate: Isolate,
    isRetry: boolean,
  ): Promise<AcquireAnswer | NoKey | undefined> {
    this.loseForgottenLease(request.isolate);
    const message = this.#alter("request", structuredClone(request));
    const answer = await this.#answer(isRetry, ({ object }) => object.acquire(message));
    if (answer !== undefined && "result" in answer && answer.result !== undefined)
      this.noteResult(request, isolate, answer.result);
    return answer;
  }

  /** Reads the key at the primary. A reader that has ended gets no answer. */
  #read(reader: Owner): Promise<Key> {
    this.counts.reads += 1;
    const beganMs = this.time.nowMs;
    const resume = this.platform.resumeOf(reader);
    return new Promise((resolve, reject) => {
      const deliver = () => {
        const { key } = this;
        return () => {
          this.slowestReadMs = Math.max(this.slowestReadMs, this.time.nowMs - beganMs);
          resume(() => resolve(structuredClone(key)));
        };
      };
      const fail = (error: object) => resume(() => reject(error));
      if (this.#options.read === undefined) deliver()();
      else this.#options.read({ deliver, fail });
    });
  }

  /** The keys database: a write may be executed later, also after its object has ended. */
  #database() {
    const write = this.#options.write ?? (async (execute) => execute());
    return {
      prepare: (sql: string) => ({
        bind: (...parameters: SQLInputValue[]) => ({
          run: () => write(() => void USAGE.prepare(sql).run(...parameters)),
        }),
      }),
    };
  }

  // The object.

  /** The status that the object answers to GET /v1/usage; nothing if it has no key, or crashes meanwhile. */
  async askUsage(): Promise<Status | undefined> {
    const answer = await this.#answer(false, ({ object }) => object.usage());
    return answer !== undefined && "usage" in answer ? answer.usage?.status : undefined;
  }

  /** Has an object answer a call. A retry has a new stub, which finds the current one. */
  async #answer<Answer>(
    isRetry: boolean,
    call: (life: Life) => Promise<Answer>,
  ): Promise<Answer | undefined> {
    const isOld = !isRetry && this.replaced?.isAlive && (this.#options.random?.() ?? 0) < 1 / 2;
    this.#activeMs = this.time.nowMs;
    const answer = await this.#inLife(call, isOld ? (this.replaced as Life) : this.#life);
    this.#activeMs = this.time.nowMs;
    return answer;
  }

  /** Has the object answer a call; nothing if it crashes meanwhile. */
  async #inLife<Answer>(call: (life: Life) => Promise<Answer>, life: Life): Promise<Answer | undefined> {
    life.calls += 1;
    const answer = await Promise.race([call(life), life.ended]);
    life.calls -= 1;
    // It may have set its alarm only.
    const { latest } = this.storage;
    if (this.#newAlarmMs !== undefined && latest !== undefined)
      this.storage.writing.push({ ...latest, alarmMs: this.#newAlarmMs });
    this.#newAlarmMs = undefined;
    return structuredClone(answer);
  }

  #newLife(): Life {
    const { promise: ended, resolve } = Promise.withResolvers<undefined>();
    const end = () => {
      life.isAlive = false;
      resolve(undefined);
    };
    const memory = this.storage.latest;
    const life: Life = {
      object: undefined as never,
      memory,
      isReplaced: false,
      isAlive: true,
      calls: 0,
      ended,
      end,
    };
    const store = (run: () => void) => {
      if (!life.isAlive) return;
      if (!life.isReplaced) return run();
      end();
      throw new Error("the object was replaced");
    };
    const storage = {
      kv: {
        get: () => {
          const { latest } = this.storage;
          return latest && this.#alter("stored", structuredClone(latest));
        },
        put: (_: string, state: State) => store(() => this.#put(state)),
      },
      setAlarm: (ms: number) =>
        store(() => {
          this.#newAlarmMs = ms;
        }),
    };
    life.object = newObject({
      service: this.service,
      storage,
      database: this.#database(),
      runtime: this.platform.runtimeOf(life, () => this.objectNowMs, true),
      load: () => this.#read(life),
      reservedShare: this.#options.reservedShare,
      onChange: (memory) => this.#keep(life, memory),
    });
    return life;
  }

  /** The object has changed what it has in memory. What is not stored is covered by what is. */
  #keep(life: Life, memory: Memory): void {
    if (!life.isAlive) return;
    const before = life.memory;
    life.memory = memory;
    this.noteChange(before, memory);
    const { latest } = this.storage;
    if (latest !== undefined && contentOf(latest).revision > contentOf(memory).revision)
      this.counts.covered += 1;
  }

  #put(stored: State): void {
    const state = {
      ...stored,
      alarmMs: this.#newAlarmMs ?? this.storage.latest?.alarmMs ?? Number.POSITIVE_INFINITY,
    };
    this.#newAlarmMs = undefined;
    this.counts.puts += 1;
    this.storage.writing.push(state);
  }

  /** Makes the oldest pending write durable. */
  written(): void {
    this.storage.durable = this.storage.writing.shift() ?? this.storage.durable;
    this.#setTimer();
  }

  /** Makes all pending writes durable. */
  persist(): void {
    while (this.storage.writing.length > 0) this.written();
  }

  /** Runs the alarm when it is due. After a crash it runs again. */
  #setTimer(isAgain = false): void {
    const { alarmMs = Number.POSITIVE_INFINITY } = this.storage.durable ?? {};
    if (alarmMs === Number.POSITIVE_INFINITY || (alarmMs === this.#alarmMs && !isAgain)) return;
    this.#alarmMs = alarmMs;
    const run = async () => {
      if (this.storage.durable?.alarmMs !== alarmMs || this.#alarmMs !== alarmMs) return;
      if (this.objectNowMs < alarmMs) return this.#setTimer(true);
      await this.#inLife(({ object }) => object.alarm(), this.#life);
      if (this.#options.persist === undefined) this.persist();
      else this.#options.persist();
    };
    this.time.after(alarmMs - this.objectNowMs, run, true);
  }

  // What happens to the object.

  /** Uses a share of the key's requests before the scenario. */
  prefill(share: number): void {
    const { limits } = this.key;
    const requests = Math.floor(share * Math.min(...Object.values(limits)));
    if (requests === 0) return;
    const stored = storedAfter(this.service, requests, limits, this.objectNowMs);
    this.storage.durable = stored;
    this.#setTimer();
    this.evict();
    for (const [name, { startMs }] of Object.entries(contentOf(stored).counts)) {
      const limit = (limits as ByWindow<number>)[name] ?? 0;
      Object.assign(this.entry(name, startMs), { limit, most: limit, admitted: requests });
    }
  }

  /** Loses the object's memory, if all writes are durable and it has been idle for long. Returns whether it was. */
  evict(): boolean {
    if (this.time.nowMs - this.#activeMs < AWAKE_MS) return false;
    const { forgotten } = this.counts;
    this.#loseMemory();
    this.expect(this.counts.forgotten === forgotten || this.hasStepped, () => "it slept with a reservation");
    return true;
  }

  #loseMemory(): void {
    if (this.storage.writing.length > 0 || this.#life.calls > 0) return;
    this.#beginLife();
  }

  /** Another object takes the place of this one, which still answers some calls until it notices that. Returns whether that happened. */
  replace(): boolean {
    const { writing, durable } = this.storage;
    if (writing.length > 0 || durable === undefined) return false;
    this.replaced?.end();
    this.replaced = this.#life;
    this.replaced.isReplaced = true;
    this.#beginLife(false);
    this.#setTimer(true);
    return true;
  }

  /** The object goes on from what is durable. */
  #beginLife(endsLast = true): void {
    const { memory } = this.#life;
    if (endsLast) {
      this.replaced?.end();
      this.#life.end();
    }
    this.#life = this.#newLife();
    const { durable } = this.storage;
    if (memory !== undefined && durable !== undefined) this.noteRestart(memory, durable);
  }

  /** As if the object had slept, although it is in use: it has to read the key before its next answer. */
  sleep(): void {
    this.persist();
    const { durable } = this.storage;
    if (durable !== undefined) this.storage.durable = withoutRecord(durable);
    this.#loseMemory();
  }

  /** Loses the object's memory and all but the first `written` pending writes. Calls without a result fail. */
  crash(written: number): void {
    const { storage } = this;
    storage.durable = storage.writing[written - 1] ?? storage.durable;
    storage.writing = [];
    this.#newAlarmMs = undefined;
    this.crashes += 1;
    this.#beginLife();
    this.#setTimer(true);
  }
}
