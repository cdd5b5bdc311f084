// What an isolate knows of keys: those that it has asked about, and secrets that don't exist. It identifies the caller of a request, and
// counts the request, by one call if the isolate does not know the key.

import { BoundedMap } from "../../lib/bounded-map.ts";
import { DeadlineExceeded } from "../../lib/deadline.ts";
import { type Loan, leftOf, lend, OVER } from "../../lib/loan.ts";
import type { Runtime } from "../../lib/runtime.ts";
import { SingleFlight } from "../../lib/single-flight.ts";
import { LimiterUnavailable } from "../errors.ts";
import { hasSecret } from "../policy.ts";
import { KEY_MS, MAX_WAIT_MS } from "../protocol.ts";
import type { Decision } from "../windows.ts";
import type { Caller, Credential, KeyRequest } from "./caller.ts";
import { type Answered, KeyCalls, type KeysOptions } from "./key-calls.ts";
import { patienceMs } from "./key-state.ts";
import { EVERYWHERE, LookupThrottle, type Verdict } from "./lookup-throttle.ts";

/** Together about 5 MB of the 128 that an isolate has; ten times that if all of them have much to report. */
const MAX_KEYS = 5_000;
/** Keys that are not known to exist: a flood of guesses evicts only these. */
const MAX_STRANGERS = 1_000;
/** Secrets, and ids and hashes that don't exist: together about 7 MB. */
const MAX_SECRETS = 10_000;

/** A caller, and what a look-up of the request itself has answered. */
type Identified<Key, Problem extends string> = {
  caller: Caller<Key, Problem>;
  own?: Answered<Key> | undefined;
};

const UNKNOWN = { problem: "unknown" } as const;

export class KnownKeys<Key extends object, Problem extends string> {
  readonly #options: KeysOptions<Key, Problem>;
  readonly #runtime: Runtime;
  /**
   * Known keys. The oldest is evicted first, however much it is used: for this isolate its key is then new. Its timers still
   * report its lease and decisions, unless an outage lasts longer than they do.
   */
  readonly #calls = new BoundedMap<string, KeyCalls<Key>>(MAX_KEYS);
  readonly #strangers = new BoundedMap<string, KeyCalls<Key>>(MAX_STRANGERS);
  /** By secret: with hashing and its checks, a hot request takes a sixth more processor time. */
  readonly #credentials = new BoundedMap<string, Credential>(MAX_SECRETS);
  /** Ids and hashes that don't exist. */
  readonly #unknown = new BoundedMap<string, Loan>(MAX_SECRETS);
  readonly #throttle: LookupThrottle;
  /** One request at a time asks about the secrets of a key. It gets no answer if its address has no slot any more. */
  readonly #flights: SingleFlight<Answered<Key> | undefined>;

  constructor(options: KeysOptions<Key, Problem>) {
    this.#options = options;
    this.#runtime = options.runtime;
    this.#throttle = new LookupThrottle(options.runtime);
    this.#flights = new SingleFlight(options.runtime);
  }

  /** The credential in a bearer token; undefined if the token is not a secret. */
  credentialOf(token: string): Credential | undefined {
    const known = this.#credentials.get(token);
    if (known !== undefined) return known;
    const credential = this.#options.credentialOf(token);
    if (credential !== undefined) this.#credentials.set(token, credential);
    return credential;
  }

  /** The caller, as far as this isolate knows; undefined if it has to ask. */
  peekCaller(credential: Credential, nowMs: number): Caller<Key, Problem> | undefined {
    const { id, hash } = credential;
    const key = this.#find(id)?.state.peekKey(this.#runtime.now());
    if (this.#has(key, hash)) return this.#callerOf(credential, key, nowMs);
    return this.#isUnknown(id) || this.#isUnknown(hash) ? UNKNOWN : undefined;
  }

  /** Whether the next request of a valid key waits for a call that will probably admit it, as far as this isolate knows. */
  needsCall(id: string): boolean {
    return this.#find(id)?.state.needsCall(this.#runtime.now()) ?? false;
  }

  /**
   * Whether a request with a secret that the isolate can't judge is looked up at once, because its key is new to the isolate, and probably
   * in good faith: neither its address nor the isolate has as many unknown keys as one address may have in a minute.
   */
  isNew({ credential: { id }, buckets, arrivedMs }: KeyRequest): boolean {
    const isStranger = this.#find(id)?.state.peekKey(arrivedMs) === undefined;
    return isStranger && this.#throttle.hasRoom([...buckets(), EVERYWHERE], arrivedMs);
  }

  /** Counts a request of a valid key. */
  count(request: KeyRequest) {
    return this.callsOf(request.credential.id).acquire(request);
  }

  /**
   * Identifies the caller of a request whose secret this isolate can't judge, and counts the request if the secret is valid. Throws
   * LimiterUnavailable, also if too many others are looked up.
   */
  async askAndCount(request: KeyRequest): Promise<{ caller: Caller<Key, Problem>; decision?: Decision }> {
    const { credential, arrivedMs } = request;
    const calls = this.callsOf(credential.id);
    // The call that another request with this secret waits for is enough. If it fails, this request asks like any other.
    if (calls.state.isIntroducing(credential.hash)) {
      const { key = null, decision } = (await calls.askAndCount(request).catch(() => undefined)) ?? {};
      if (decision !== undefined && this.#has(key, credential.hash))
        return { caller: this.#callerOf(credential, key, arrivedMs), decision: await decision };
    }
    const { caller, own } = await this.#ask(request, true);
    if (own?.decision !== undefined) return { caller, decision: await own.decision };
    if (caller.key === undefined) return { caller };
    return { caller, decision: await this.callsOf(credential.id).acquire(request, own?.isOfPrimary) };
  }

  /** Identifies the caller of a request whose secret this isolate can't judge. Counts nothing. Throws as above. */
  async askCaller(request: KeyRequest): Promise<Caller<Key, Problem>> {
    return (await this.#ask(request, false)).caller;
  }

  /** The totals of a key's days, and a function for the windows of now. Throws LimiterUnavailable. */
  async askUsage(request: KeyRequest) {
    const calls = this.callsOf(request.credential.id);
    const days = await calls.askUsage(request).catch((error) => {
      throw error instanceof LimiterUnavailable ? error : new LimiterUnavailable("counts", error);
    });
    return { days, peek: () => calls.state.peek(this.#runtime.now()) };
  }

  /** What the isolate knows of a key, and its calls. */
  callsOf(id: string): KeyCalls<Key> {
    const known = this.#find(id);
    if (known !== undefined) return known;
    const calls = new KeyCalls(id, this.#options);
    this.#strangers.set(id, calls);
    return calls;
  }

  #find(id: string): KeyCalls<Key> | undefined {
    return this.#calls.get(id) ?? this.#strangers.get(id);
  }

  #isUnknown(name: string): boolean {
    return leftOf(this.#unknown.get(name) ?? OVER, this.#runtime.now()) > 0;
  }

  /** Asks until the caller is known. */
  #ask(request: KeyRequest, counts: boolean): Promise<Identified<Key, Problem>> {
    const maxMs = patienceMs(request.arrivedMs, this.#runtime.now());
    const work = () => this.#askUntilKnown(request, counts);
    // It may wait for a call of another request.
    return this.#runtime.withDeadline("the key's object", maxMs, work).catch((error) => {
      throw error instanceof DeadlineExceeded ? new LimiterUnavailable("key", error) : error;
    });
  }

  async #askUntilKnown(request: KeyRequest, counts: boolean): Promise<Identified<Key, Problem>> {
    const { credential, arrivedMs } = request;
    const { id, hash } = credential;
    // A secret that was valid before is not throttled, whatever else its address has sent.
    const buckets = this.#find(id)?.state.hadSecret(hash) ? [] : request.buckets();
    // The answer that another request waits for needs no slot.
    const isFree = () => this.#flights.isUnderway(id) || this.peekCaller(credential, arrivedMs) !== undefined;
    let own: Answered<Key> | undefined;
    let isFirst = true;
    const lookUp = async (): Promise<[Answered<Key>, Verdict]> => {
      const calls = this.callsOf(id);
      // A secret that the key lacks is probably wrong, and must not occupy a call that counts.
      const isDoubtful = calls.state.peekKey(this.#runtime.now()) !== undefined || !isFirst;
      const answer = await calls.ask(request, counts && !isDoubtful);
      // A decision stays: the request is counted.
      if (own?.decision === undefined) own = answer;
      if (answer.key !== null) {
        this.#calls.set(id, calls);
        this.#strangers.delete(id);
      }
      // An older key does not tell whether the secret exists.
      const missing = answer.isNew ? "unknown" : "undecided";
      return [answer, this.#has(answer.key, hash) ? "found" : missing];
    };
    while (patienceMs(arrivedMs, this.#runtime.now()) > 0) {
      // Without an `await` if there is room, so that other requests of this instant wait for the same call.
      if (!isFree() && !this.#throttle.hasRoom(buckets, arrivedMs)) {
        const refusal = await this.#throttle.awaitSlot(buckets, arrivedMs, isFree);
        if (refusal !== undefined) return { caller: { problem: "unknown", refusal } };
      }
      const known = this.peekCaller(credential, arrivedMs);
      if (known !== undefined) return { caller: known, own };
      const answer = await this.#flights.run(id, () => this.#throttle.run(buckets, arrivedMs, lookUp));
      if (answer === undefined) continue;
      const { key, isNew, sentMs } = answer;
      if (this.#has(key, hash)) return { caller: this.#callerOf(credential, key, arrivedMs), own };
      // Otherwise the secret may have been made since the key was read. A second call begins after the request has arrived.
      if (isNew && (sentMs >= arrivedMs || !isFirst)) {
        this.#unknown.set(key === null ? id : hash, lend(sentMs, KEY_MS));
        return { caller: UNKNOWN, own };
      }
      isFirst = false;
    }
    throw new DeadlineExceeded("the key's object", MAX_WAIT_MS);
  }

  #has(key: Key | null | undefined, hash: string): key is Key {
    return hasSecret(this.#options.policy, key, hash);
  }

  /** The caller with this secret of this key. */
  #callerOf({ id, hash }: Credential, key: Key, nowMs: number): Caller<Key, Problem> {
    const problem = this.#options.policy.problemOf(key, hash, nowMs);
    return problem === undefined ? { key, keyId: id } : { keyId: id, problem };
  }
}
