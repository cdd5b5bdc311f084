// What an isolate knows of keys: clients of their objects, and secrets that don't exist. It identifies the caller of a request, and
// counts the request, by one call if the isolate does not know the key.

import { FRESH_MS } from "../../d1/freshness.ts";
import { DatabaseUnavailable } from "../../d1/statements.ts";
import { BoundedMap } from "../../lib/bounded-map.ts";
import { DeadlineExceeded } from "../../lib/deadline.ts";
import type { Runtime } from "../../lib/runtime.ts";
import { sha256 } from "../../lib/sha256.ts";
import { SingleFlight } from "../../lib/single-flight.ts";
import type { KeyDecision } from "../../rate-limit/windows.ts";
import { MAX_WAIT_MS, type RecordAnswer } from "../protocol.ts";
import { hasSecret, type KeyRecord, problemOf } from "../record.ts";
import { keyIdOf } from "../secret.ts";
import type { Caller, Credential, KeyRequest } from "./caller.ts";
import { KeyClient, type KeyObject } from "./key-client.ts";
import { leftMs } from "./key-state.ts";
import { type Answered, LookUp } from "./look-up.ts";
import { EVERYWHERE, LookupThrottle, type Verdict } from "./lookup-throttle.ts";

/** Together about 5 MB of the 128 that an isolate has; ten times that if all of them have much to report. */
const MAX_CLIENTS = 5_000;
/** Clients of keys that are not known to exist: a flood of guesses evicts only these. */
const MAX_STRANGERS = 1_000;
/** Secrets, and ids and hashes that don't exist: together about 7 MB. */
const MAX_SECRETS = 10_000;

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
  readonly #objectOf: (id: string) => KeyObject;
  /**
   * Clients of keys' objects. The oldest is evicted first, however much it is used: for this isolate its key is then new. Its timers still
   * report its lease and decisions, unless an outage lasts longer than they do.
   */
  readonly #clients = new BoundedMap<string, KeyClient>(MAX_CLIENTS);
  readonly #strangers = new BoundedMap<string, KeyClient>(MAX_STRANGERS);
  readonly #lookUp: LookUp;
  /** By secret: with hashing and its checks, a hot request takes a sixth more processor time. */
  readonly #credentials = new BoundedMap<string, Credential>(MAX_SECRETS);
  /** Ids and hashes that don't exist, with the time from which on they were known (Unix time). */
  readonly #unknown = new BoundedMap<string, number>(MAX_SECRETS);
  readonly #throttle: LookupThrottle;
  /** One request at a time asks about the secrets of a key. It gets no answer if its address has no slot any more. */
  readonly #flights: SingleFlight<Answered | undefined>;

  constructor({ runtime, objectOf, findRecord }: KnownKeysOptions) {
    this.#runtime = runtime;
    this.#objectOf = objectOf;
    this.#lookUp = new LookUp(runtime, findRecord);
    this.#throttle = new LookupThrottle(runtime);
    this.#flights = new SingleFlight(runtime);
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
  peek(credential: Credential, nowMs: number): Caller | undefined {
    const { id, hash } = credential;
    const record = this.#find(id)?.state.recordAt(this.#runtime.now()) ?? null;
    if (hasSecret(record, hash)) return callerOf(credential, record, nowMs);
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
    const isStranger = this.#find(id)?.state.recordAt(arrivedMs) === undefined;
    return isStranger && this.#throttle.hasRoom([...buckets(), EVERYWHERE], arrivedMs);
  }

  /** Counts a request of a valid key. */
  count(request: KeyRequest) {
    return this.clientOf(request.credential.id).acquire(request);
  }

  /**
   * Identifies the caller of a request whose secret this isolate can't judge, and counts the request if the secret is valid. Throws
   * DatabaseUnavailable, or Unavailable if too many others are looked up.
   */
  async identifyAndCount(request: KeyRequest): Promise<{ caller: Caller; decision?: KeyDecision }> {
    const { credential, arrivedMs, onObjectFailure } = request;
    const { id, hash } = credential;
    let own: Promise<KeyDecision> | undefined;
    const introduce = async (client: KeyClient) => {
      const { answer, decision } = await client.introduce(request);
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
    if (client.state.isIntroducing(hash)) {
      const { record = null } = (await introduce(client).catch(() => undefined)) ?? {};
      if (own !== undefined && hasSecret(record, hash))
        return { caller: callerOf(credential, record, arrivedMs), decision: await own };
    }
    const caller = await this.#identify(asking, (client, isFirst) => {
      // A secret that the record lacks is probably wrong, and must not occupy a call that counts.
      const isDoubtful = client.state.recordAt(this.#runtime.now()) !== undefined || !isFirst;
      return isDoubtful ? client.identify(request) : introduce(client);
    });
    if (own !== undefined) return { caller, decision: await own };
    if (caller.key === undefined) return { caller };
    return { caller, decision: await (isAlone ? this.clientOf(id).decideAlone() : this.count(request)) };
  }

  /** Identifies the caller of a request whose secret this isolate can't judge. Counts nothing. Throws as above. */
  identify(request: KeyRequest): Promise<Caller> {
    return this.#identify(request, (client) => client.identify(request));
  }

  /** The totals of a key's days, and a function for the windows of now. Throws what the call throws. */
  async readUsage(request: KeyRequest) {
    const client = this.clientOf(request.credential.id);
    const days = await client.readUsage(request);
    return { days, peek: () => client.state.peek(this.#runtime.now()) };
  }

  /** The client of a key's object. */
  clientOf(id: string): KeyClient {
    const known = this.#find(id);
    if (known !== undefined) return known;
    const client = new KeyClient(this.#runtime, () => this.#objectOf(id));
    this.#strangers.set(id, client);
    return client;
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
      return await this.#runtime.withDeadline(
        "the key's object",
        leftMs(request.arrivedMs, this.#runtime.now()),
        work,
      );
    } catch (error) {
      throw error instanceof DeadlineExceeded ? new DatabaseUnavailable(error, false) : error;
    }
  }

  async #askUntilKnown(request: KeyRequest, ask: Ask): Promise<Caller> {
    const { credential, arrivedMs } = request;
    const { id, hash } = credential;
    // A secret that was valid before is not throttled, whatever else its address has sent.
    const buckets = this.#find(id)?.state.hadSecret(hash) ? [] : request.buckets();
    const verdictOf = ({ record, isNew }: Answered): Verdict => {
      if (hasSecret(record, hash)) return "found";
      // An older record does not tell whether the secret exists.
      return isNew ? "unknown" : "undecided";
    };
    // The answer that another request waits for needs no slot.
    const isFree = () => this.#flights.isUnderway(id) || this.peek(credential, arrivedMs) !== undefined;
    let isFirst = true;
    while (leftMs(request.arrivedMs, this.#runtime.now()) > 0) {
      // Without an `await` if there is room, so that other requests of this instant wait for the same call.
      if (!isFree() && !this.#throttle.hasRoom(buckets, arrivedMs)) {
        const refusal = await this.#throttle.awaitSlot(buckets, arrivedMs, isFree);
        if (refusal !== undefined) return { problem: "unknown", refusal };
      }
      const known = this.peek(credential, arrivedMs);
      if (known !== undefined) return known;
      const lookUp = async () => {
        const client = this.clientOf(id);
        const answer = await this.#lookUp.run(request, client, () => ask(client, isFirst));
        if (answer.record !== null) {
          this.#clients.set(id, client);
          this.#strangers.delete(id);
        }
        return answer;
      };
      const answer = await this.#flights.run(id, () =>
        this.#throttle.run(buckets, arrivedMs, lookUp, verdictOf),
      );
      if (answer === undefined) continue;
      const { record, isNew, sentMs } = answer;
      if (hasSecret(record, hash)) return callerOf(credential, record, arrivedMs);
      // Otherwise the secret may have been made since the record was read. A second call begins after the request has arrived.
      if (isNew && (sentMs >= arrivedMs || !isFirst)) {
        this.#unknown.set(record === null ? id : hash, sentMs);
        return UNKNOWN;
      }
      isFirst = false;
    }
    throw new DeadlineExceeded("the key's object", MAX_WAIT_MS);
  }
}

/** The caller with a secret of a key that has this record. */
function callerOf({ id, hash }: Credential, record: KeyRecord, nowMs: number): Caller {
  const problem = problemOf(record, hash, nowMs);
  return problem === undefined ? { key: record, keyId: id } : { keyId: id, problem };
}
