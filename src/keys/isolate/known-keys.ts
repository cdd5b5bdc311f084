// What an isolate knows of keys: clients of their objects, and secrets that don't exist. It identifies the caller of a request, and
// counts the request, by one call if the isolate does not know the key. The oldest entries are evicted first, however much they are used:
// for this isolate the key is then new. Timers still report a client's lease and decisions, unless an outage lasts longer than they do.

import { FRESH_MS } from "../../d1/freshness.ts";
import { DatabaseUnavailable } from "../../d1/statements.ts";
import { BoundedMap } from "../../lib/bounded-map.ts";
import { DeadlineExceeded } from "../../lib/deadline.ts";
import type { Runtime } from "../../lib/runtime.ts";
import { sha256 } from "../../lib/sha256.ts";
import { SingleFlight } from "../../lib/single-flight.ts";
import type { Decision, KeyDecision } from "../../rate-limit/windows.ts";
import { MAX_WAIT_MS, type RecordAnswer } from "../protocol.ts";
import { hasSecret, type KeyRecord, problemOf, type SecretProblem } from "../record.ts";
import { keyIdOf } from "../secret.ts";
import { KeyClient, type KeyObject } from "./key-client.ts";
import { LookupThrottle } from "./lookup-throttle.ts";
import { ObjectUnavailable } from "./waiting-requests.ts";

/** Together about 5 MB of the 128 that an isolate has; ten times that if all of them have much to report. */
const MAX_CLIENTS = 5_000;
/** Clients of keys that are not known to exist: a flood of guesses evicts only these. */
const MAX_STRANGERS = 1_000;
/** Secrets, and ids and hashes that don't exist: together about 7 MB. */
const MAX_SECRETS = 10_000;
/** How long neither the object nor the primary is asked about a key again if both have hung. */
const FAILURE_MS = 5_000;
/** A primary that has had less time than this does not hang. */
const HANGING_MS = 1_000;

/** A secret: its SHA-256, and the id of its key. */
export type Credential = { id: string; hash: string };

/** A valid key, or why there is none. `keyId` is also set for a key that is no longer valid. */
export type Caller =
  | { key: KeyRecord; keyId: string; problem?: never; refusal?: never }
  | {
      key?: never;
      keyId?: string;
      problem: "missing" | SecretProblem;
      /** Set if nobody was asked about the secret, because its address or network has sent too many unknown ones. */
      refusal?: Decision;
    };

/** A request with a secret. */
export interface KeyRequest {
  credential: Credential;
  /** Unix time, by this isolate's clock. */
  arrivedMs: number;
  /** See LookupThrottle. */
  buckets(): readonly string[];
  /** Called with the reason if the object can't be reached. */
  onObjectFailure(error: unknown): void;
}

/** What the object, or else the primary, has answered about a secret to a question of `sentMs` (Unix time). */
type Answered = RecordAnswer & { sentMs: number };

/** Asks a key's object about the secret of a request. */
type Ask = (client: KeyClient, isFirst: boolean) => Promise<RecordAnswer>;

const UNKNOWN: Caller = { problem: "unknown" };

export interface KnownKeysOptions {
  /** The clock and timers. */
  runtime: Runtime;
  /** A new stub of a key's object. */
  objectOf(id: string): KeyObject;
  /** Reads a record from the primary. Throws DatabaseUnavailable. */
  findRecord(id: string): Promise<KeyRecord | null>;
}

export class KnownKeys {
  readonly #runtime: Runtime;
  readonly #options: KnownKeysOptions;
  readonly #clients = new BoundedMap<string, KeyClient>(MAX_CLIENTS);
  readonly #strangers = new BoundedMap<string, KeyClient>(MAX_STRANGERS);
  /** By secret: hashing takes a quarter of the CPU time of a hot request. */
  readonly #credentials = new BoundedMap<string, Credential>(MAX_SECRETS);
  /** Ids and hashes that don't exist, with the time from which on they were known (Unix time). */
  readonly #unknown = new BoundedMap<string, number>(MAX_SECRETS);
  readonly #throttle: LookupThrottle;
  /** One request at a time asks about the secrets of a key. It gets no answer if its address has no slot any more. */
  readonly #flights: SingleFlight<Answered | undefined>;
  /** By the id of a key: that the primary did not answer either. */
  readonly #failures = new BoundedMap<string, { error: unknown; atMs: number }>(MAX_STRANGERS);

  constructor(options: KnownKeysOptions) {
    this.#options = options;
    this.#runtime = options.runtime;
    this.#throttle = new LookupThrottle(options.runtime);
    this.#flights = new SingleFlight(options.runtime);
  }

  /** The credential in a bearer token; undefined if the token is not a secret. */
  credentialOf(token: string): Credential | undefined {
    const known = this.#credentials.get(token);
    if (known !== undefined) return known;
    const id = keyIdOf(token);
    if (id === undefined) return undefined;
    const credential = { id, hash: sha256(token) };
    this.#credentials.set(token, credential);
    return credential;
  }

  /** The caller, as far as this isolate knows; undefined if it has to ask. */
  peek({ id, hash }: Credential, nowMs: number): Caller | undefined {
    const key = this.#find(id)?.record;
    const problem = key === undefined ? "unknown" : problemOf(key, hash, nowMs);
    if (problem === "unknown") return this.#isUnknown(id) || this.#isUnknown(hash) ? UNKNOWN : undefined;
    return callerOf(id, key, problem);
  }

  /** Whether the next request of a valid key will probably be refused, as far as this isolate knows. */
  isExhausted(id: string): boolean {
    return this.#find(id)?.known.peek().admitted === false;
  }

  /** Whether a request with a secret that the isolate can't judge may cost a look-up, because its key is new to the isolate. */
  isNew({ credential: { id }, buckets, arrivedMs }: KeyRequest): boolean {
    return this.#find(id)?.record === undefined && this.#throttle.hasRoom(buckets(), arrivedMs);
  }

  /** Counts a request of a valid key. */
  count({ credential: { id }, arrivedMs, onObjectFailure }: KeyRequest) {
    return this.clientOf(id).acquire(arrivedMs, onObjectFailure);
  }

  /**
   * Identifies the caller of a request whose secret this isolate can't judge, and counts the request if the secret is valid. Throws
   * DatabaseUnavailable.
   */
  async identifyAndCount(request: KeyRequest): Promise<{ caller: Caller; decision?: KeyDecision }> {
    const { credential, arrivedMs, onObjectFailure } = request;
    const { id, hash } = credential;
    let own: Promise<KeyDecision> | undefined;
    const introduce = async (client: KeyClient) => {
      const { answer, decision } = await client.introduce(hash, arrivedMs, onObjectFailure);
      own = decision;
      return answer;
    };
    let isAlone = false;
    const asking: KeyRequest = {
      ...request,
      onObjectFailure: (error) => {
        isAlone = true;
        onObjectFailure(error);
      },
    };
    const client = this.clientOf(id);
    // The call that another request with this secret waits for is enough. If it fails, this request asks like any other.
    if (client.isIntroducing(hash)) {
      const { record = null } = (await introduce(client).catch(() => undefined)) ?? {};
      if (own !== undefined && hasSecret(record, hash))
        return { caller: callerOf(id, record, problemOf(record, hash, arrivedMs)), decision: await own };
    }
    const caller = await this.#identify(asking, (client, isFirst) => {
      // A secret that the record lacks is probably wrong, and must not occupy a call that counts.
      const isDoubtful = client.record !== undefined || !isFirst;
      return isDoubtful ? client.identify(hash, arrivedMs) : introduce(client);
    });
    if (own !== undefined) return { caller, decision: await own };
    if (caller.key === undefined) return { caller };
    return { caller, decision: await (isAlone ? this.clientOf(id).decideAlone() : this.count(request)) };
  }

  /** Identifies the caller of a request whose secret this isolate can't judge. Counts nothing. Throws DatabaseUnavailable. */
  identify(request: KeyRequest): Promise<Caller> {
    const { credential, arrivedMs } = request;
    return this.#identify(request, (client) => client.identify(credential.hash, arrivedMs));
  }

  /** The totals of a key's days, and a function for the windows of now. Throws what the call throws. */
  async usage(request: KeyRequest) {
    const client = this.clientOf(request.credential.id);
    const days = await client.usage(this.#leftMs(request));
    return { days, decide: () => client.known.peek() };
  }

  /** The client of a key's object. */
  clientOf(id: string): KeyClient {
    const newClient = () => new KeyClient(this.#runtime, () => this.#options.objectOf(id));
    return this.#clients.get(id) ?? this.#strangers.getOrAdd(id, newClient);
  }

  #find(id: string): KeyClient | undefined {
    return this.#clients.get(id) ?? this.#strangers.get(id);
  }

  #isUnknown(name: string): boolean {
    const sinceMs = this.#unknown.get(name);
    if (sinceMs === undefined) return false;
    const ageMs = this.#runtime.now() - sinceMs;
    return ageMs >= 0 && ageMs < FRESH_MS;
  }

  /** Asks until the caller is known. */
  async #identify(request: KeyRequest, ask: Ask): Promise<Caller> {
    const work = () => this.#askUntilKnown(request, ask);
    try {
      // It may wait for a call of another request.
      return await this.#runtime.withDeadline("the key's object", this.#leftMs(request), work);
    } catch (error) {
      throw error instanceof DeadlineExceeded ? new DatabaseUnavailable(error, false) : error;
    }
  }

  /** How long the request may wait. After the clock steps, it waits anew. */
  #leftMs({ arrivedMs }: KeyRequest): number {
    const waitedMs = this.#runtime.now() - arrivedMs;
    return waitedMs < 0 ? MAX_WAIT_MS : Math.max(0, MAX_WAIT_MS - waitedMs);
  }

  async #askUntilKnown(request: KeyRequest, ask: Ask): Promise<Caller> {
    const { credential, arrivedMs } = request;
    const { id, hash } = credential;
    // A secret that was valid before is not throttled, whatever else its address has sent.
    const buckets = this.#find(id)?.hadSecret(hash) ? [] : request.buckets();
    const isFound = ({ record, isNew }: Answered) => hasSecret(record, hash) || !isNew;
    // The answer that another request waits for needs no slot.
    const isFree = () => this.#flights.isUnderway(id) || this.peek(credential, arrivedMs) !== undefined;
    let isFirst = true;
    while (this.#leftMs(request) > 0) {
      // Without an `await` if there is room, so that other requests of this instant wait for the same call.
      if (!isFree() && !this.#throttle.hasRoom(buckets, arrivedMs)) {
        const refusal = await this.#throttle.awaitSlot(buckets, arrivedMs, isFree);
        if (refusal !== undefined) return { problem: "unknown", refusal };
      }
      const known = this.peek(credential, arrivedMs);
      if (known !== undefined) return known;
      const askObject = () => this.#ask(request, ask, isFirst);
      const answer = await this.#flights.run(id, () =>
        this.#throttle.run(buckets, arrivedMs, askObject, isFound),
      );
      if (answer === undefined) continue;
      const { record, isNew, sentMs } = answer;
      if (hasSecret(record, hash)) return callerOf(id, record, problemOf(record, hash, arrivedMs));
      // Otherwise the secret may have been made since the record was read. A second call begins after the request has arrived.
      if (isNew && (sentMs >= arrivedMs || !isFirst)) {
        this.#unknown.set(record === null ? id : hash, sentMs);
        return UNKNOWN;
      }
      isFirst = false;
    }
    throw new DeadlineExceeded("the key's object", MAX_WAIT_MS);
  }

  /** Asks the object, or else the primary. */
  async #ask(request: KeyRequest, ask: Ask, isFirst: boolean): Promise<Answered> {
    const { id } = request.credential;
    const client = this.clientOf(id);
    const sentMs = this.#runtime.now();
    const recent = this.#failures.get(id);
    if (recent !== undefined && Math.abs(sentMs - recent.atMs) < FAILURE_MS) throw recent.error;
    const answer = await ask(client, isFirst).then(
      (each): Answered => ({ ...each, sentMs }),
      (failure) => this.#askPrimary(request, client, failure),
    );
    if (answer.record !== null) {
      this.#clients.set(id, client);
      this.#strangers.delete(id);
    }
    return answer;
  }

  /** Reads the record from the primary, because the object can't be reached. */
  async #askPrimary(request: KeyRequest, client: KeyClient, failure: unknown): Promise<Answered> {
    if (!(failure instanceof ObjectUnavailable)) throw failure;
    const { credential, onObjectFailure } = request;
    onObjectFailure(failure.cause);
    const sentMs = this.#runtime.now();
    const find = () => this.#options.findRecord(credential.id);
    const leftMs = this.#leftMs(request);
    try {
      const record = await this.#runtime.withDeadline("the database", leftMs, find);
      client.learn({ record, usableMs: FRESH_MS }, sentMs);
      return { record, usableMs: FRESH_MS, isNew: true, sentMs };
    } catch (error) {
      if (error instanceof DeadlineExceeded && leftMs >= HANGING_MS)
        this.#failures.set(credential.id, { error, atMs: this.#runtime.now() });
      throw error instanceof DatabaseUnavailable ? error : new DatabaseUnavailable(error, false);
    }
  }
}

function callerOf(keyId: string, key: KeyRecord | undefined, problem?: SecretProblem): Caller {
  if (key !== undefined && problem === undefined) return { key, keyId };
  return { keyId, problem: problem ?? "unknown" };
}
