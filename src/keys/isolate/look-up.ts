// The look-up of a secret that the isolate can't judge: at the key's object, or else at the primary of the keys database.

import { FRESH_MS } from "../../d1/freshness.ts";
import { DatabaseUnavailable } from "../../d1/statements.ts";
import { BoundedMap } from "../../lib/bounded-map.ts";
import { DeadlineExceeded } from "../../lib/deadline.ts";
import type { Runtime } from "../../lib/runtime.ts";
import type { RecordAnswer } from "../protocol.ts";
import type { KeyRecord } from "../record.ts";
import type { KeyRequest } from "./caller.ts";
import type { KeyClient } from "./key-client.ts";
import { leftMs, ObjectUnavailable } from "./key-state.ts";

/** How long neither the object nor the primary is asked about a key again if both have hung. */
const FAILURE_MS = 5_000;
/** Keys that have failed so: more can only be a flood of guesses. */
const MAX_FAILURES = 1_000;
/** A primary that had less time than this may not hang. */
const HANGING_MS = 1_000;

/** What the object, or else the primary, has answered about a secret to a question of `sentMs` (Unix time). */
export type Answered = RecordAnswer & { sentMs: number };

export class LookUp {
  readonly #runtime: Runtime;
  readonly #findRecord: (id: string) => Promise<KeyRecord | null>;
  /** By the id of a key: that the primary did not answer either. */
  readonly #failures = new BoundedMap<string, { error: unknown; atMs: number }>(MAX_FAILURES);

  constructor(runtime: Runtime, findRecord: (id: string) => Promise<KeyRecord | null>) {
    this.#runtime = runtime;
    this.#findRecord = findRecord;
  }

  /** Asks the object with `ask`, or else the primary, from whose answer `client` learns the record. */
  async run(request: KeyRequest, client: KeyClient, ask: () => Promise<RecordAnswer>): Promise<Answered> {
    const { id } = request.credential;
    const sentMs = this.#runtime.now();
    const recent = this.#failures.get(id);
    if (recent !== undefined && Math.abs(sentMs - recent.atMs) < FAILURE_MS) throw recent.error;
    return ask().then(
      (each): Answered => ({ ...each, sentMs }),
      (failure) => this.#askPrimary(request, client, failure),
    );
  }

  /** Reads the record from the primary, because the object can't be reached. */
  async #askPrimary(request: KeyRequest, client: KeyClient, failure: unknown): Promise<Answered> {
    if (!(failure instanceof ObjectUnavailable)) throw failure;
    const { credential, timing, onObjectFailure } = request;
    onObjectFailure(failure.cause);
    const sentMs = this.#runtime.now();
    const find = () => this.#findRecord(credential.id);
    const maxMs = leftMs(request.arrivedMs, sentMs);
    try {
      const record = await this.#runtime.withDeadline("the database", maxMs, find);
      client.state.learnRecord({ record, usableMs: FRESH_MS }, sentMs, this.#runtime.now());
      return { record, usableMs: FRESH_MS, isNew: true, sentMs };
    } catch (error) {
      if (error instanceof DeadlineExceeded && maxMs >= HANGING_MS)
        this.#failures.set(credential.id, { error, atMs: this.#runtime.now() });
      throw error instanceof DatabaseUnavailable ? error : new DatabaseUnavailable(error, false);
    } finally {
      timing?.hop("keys", sentMs);
    }
  }
}
