// The copy of a key in its object, read from the keys database. An old key is read again before an answer, an ageing one in the
// background, and any for a secret that it lacks. If the database fails, an old one is used for longer.

import { DeadlineExceeded } from "../../lib/deadline.ts";
import type { Runtime } from "../../lib/runtime.ts";
import { KEY_MS, type KeyAnswer, type NoKey } from "../protocol.ts";

/** Longer: fewer reads that calls wait for; shorter: changes of a key are known earlier. */
const MAX_AGE_MS = 10_000;
/** From this age on, a call begins a read that it does not wait for. */
const REFRESH_MS = 5_000;
/** At most one read for unknown secrets in this time. Longer: a new secret can wait as long; shorter: a flood causes more reads. */
const REREAD_MS = 1_000;
/** After MAX_AGE_MS. */
const STALE_IF_ERROR_MS = 5 * 60_000;
/** Shorter than the deadline of a call, so that the answer arrives. */
const DEADLINE_MS = 2_000;
/** After a failed read, there is no other one for this time if a key is left or the database hangs. */
const FAILURE_PAUSE_MS = 5_000;

/** A key, with the beginning of its read (Unix time). */
export type ReadKey<Key> = { key: Key | null; readMs: number };

/** Reads the key, and is told of one that differs, and of each error. */
export interface KeySource<Key> {
  load(): Promise<Key | null>;
  hasSecret(key: Key, hash: string): boolean;
  onChange(): void;
  onFailure(error: unknown): void;
}

export class KeyReader<Key extends object> {
  readonly #runtime: Runtime;
  readonly #source: KeySource<Key>;
  #latest: ReadKey<Key> | undefined;
  /** The number of the read of `latest`; 0 for a stored key. */
  #latestNumber = 0;
  #failure: { error: unknown; atMs: number } | undefined;
  #reading: Promise<void> | undefined;
  /** The number of reads so far, and the beginning of the last one. */
  #reads = 0;
  #beganMs = Number.NEGATIVE_INFINITY;

  /** `stored`: from before the object slept. */
  constructor(runtime: Runtime, stored: ReadKey<Key> | undefined, source: KeySource<Key>) {
    this.#runtime = runtime;
    this.#source = source;
    this.#latest = stored;
  }

  get latest(): ReadKey<Key> | undefined {
    return this.#latest;
  }

  /**
   * The key for an answer. If it lacks the secret with this hash, it is read again, unless that has just been done; then
   * `isPatient` waits until it may be. Without a key that may be used, or that tells of the secret, the answer is the error of the
   * read.
   */
  async answer(hash?: string, isPatient = false): Promise<KeyAnswer<Key> | NoKey> {
    const before = this.#reads;
    const waited: { loadMs?: number } = {};
    const read = async () => {
      const beganMs = this.#runtime.now();
      if (!(await this.#read())) return;
      waited.loadMs = (waited.loadMs ?? 0) + Math.max(0, this.#runtime.now() - beganMs);
    };
    const isMissing = () => {
      if (hash === undefined || this.#isNull || this.#latestNumber > before) return false;
      const key = this.#latest?.key ?? null;
      return key === null || !this.#source.hasSecret(key, hash);
    };
    const isRecovering = this.#failure !== undefined && isMissing();
    if (this.#ageMs >= MAX_AGE_MS || isRecovering) await read();
    else if (this.#ageMs >= REFRESH_MS) this.#runtime.keepAlive(this.#read());
    // Twice, because a read that had begun before does not tell of this secret.
    for (let reads = 0; reads < 2 && this.#failure === undefined && isMissing(); reads += 1) {
      const pauseMs = this.#beganMs + REREAD_MS - this.#runtime.now();
      if (this.#reading === undefined && pauseMs > 0 && pauseMs <= REREAD_MS) {
        if (!isPatient) break;
        await this.#runtime.wait(pauseMs);
      }
      if (isMissing()) await read();
    }
    const isUnanswered = this.#failure !== undefined && isMissing();
    if (this.#latest === undefined || this.#leftMs <= 0 || isUnanswered)
      return { unavailable: `${this.#failure?.error}`, ...waited };
    const ageMs = this.#ageMs;
    const usableMs = ageMs < MAX_AGE_MS ? KEY_MS - ageMs : Math.min(FAILURE_PAUSE_MS, this.#leftMs);
    return {
      key: this.#latest.key,
      usableMs,
      isNew: this.#latestNumber > before || this.#isNull,
      ...waited,
    };
  }

  /** How long the key may be used if the database fails. */
  get #leftMs(): number {
    return MAX_AGE_MS + STALE_IF_ERROR_MS - this.#ageMs;
  }

  /** Whether the key does not exist. Ids are random, so nobody asks for a key before it exists. */
  get #isNull(): boolean {
    return this.#latest?.key === null && this.#ageMs < MAX_AGE_MS;
  }

  /** Infinite if unknown, as after the clock has stepped back. */
  get #ageMs(): number {
    const ageMs = this.#runtime.now() - (this.#latest?.readMs ?? Number.POSITIVE_INFINITY);
    return ageMs < 0 ? Number.POSITIVE_INFINITY : ageMs;
  }

  /**
   * Reads the key, or waits for the read under way. Not soon after a failure if a key is left, or if the database hangs. Returns
   * whether it has waited for a read.
   */
  async #read(): Promise<boolean> {
    const { error, atMs = Number.NEGATIVE_INFINITY } = this.#failure ?? {};
    const isRecent = Math.abs(this.#runtime.now() - atMs) < FAILURE_PAUSE_MS;
    if (isRecent && (this.#leftMs > 0 || error instanceof DeadlineExceeded)) return false;
    this.#reading ??= this.#readOnce().finally(() => {
      this.#reading = undefined;
    });
    await this.#reading;
    return true;
  }

  async #readOnce(): Promise<void> {
    this.#reads += 1;
    const number = this.#reads;
    const readMs = this.#runtime.now();
    this.#beganMs = readMs;
    try {
      const key = await this.#runtime.withDeadline("the database", DEADLINE_MS, () => this.#source.load());
      const isChange = textOf(key) !== textOf(this.#latest?.key ?? null);
      this.#latest = { key, readMs: Math.min(readMs, this.#runtime.now()) };
      this.#latestNumber = number;
      this.#failure = undefined;
      if (isChange) this.#source.onChange();
    } catch (error) {
      this.#failure = { error, atMs: this.#runtime.now() };
      this.#source.onFailure(error);
    }
  }
}

/** A key as a text, whatever the order of its fields: one that was stored can have another than one that was loaded. */
function textOf(key: object | null): string {
  return JSON.stringify(key, (_, value) =>
    Object(value) !== value || Array.isArray(value)
      ? value
      : Object.fromEntries(Object.entries(value).sort()),
  );
}
