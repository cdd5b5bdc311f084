// A client: it has a key, sends requests above, at or below its limits, and records the responses.

import { randomUUID } from "node:crypto";
import { setTimeout as wait } from "node:timers/promises";
import { inspect } from "node:util";
import { type Pet, parse } from "../../../client/src/index.ts";
import { HEADER } from "../../../src/http/header-names.ts";
import { PLAN_LIMITS, type Plan } from "../../../src/keys/plans.ts";
import type { Limits } from "../../../src/rate-limit/windows.ts";
import { Ledger } from "./ledger.ts";

export interface Profile {
  plan: Plan;
  limits: Limits;
  perMinute: number;
  /** How many requests it sends at once. */
  burst: number;
  /** Whether it only adds pets. */
  isWriter?: boolean;
}

const { free, pro, business } = PLAN_LIMITS;
const enterprise = (minute: number, day = 1_000_000) => ({ minute, day });

/** They repeat. A client below four times its limit, or 180 requests above it, is never banned. */
export const PROFILES: Profile[] = [
  { plan: "enterprise", limits: enterprise(4_000), perMinute: 800, burst: 8, isWriter: true },
  // Reaches its limit in the first seconds of a minute.
  { plan: "enterprise", limits: enterprise(10), perMinute: 180, burst: 5 },
  // Reaches its limit per day early.
  { plan: "enterprise", limits: enterprise(1_200, 20), perMinute: 500, burst: 1 },
  { plan: "pro", limits: pro, perMinute: 450, burst: 3 },
  { plan: "enterprise", limits: enterprise(500), perMinute: 600, burst: 2 },
  { plan: "free", limits: free, perMinute: 60, burst: 1 },
  { plan: "business", limits: business, perMinute: 250, burst: 4 },
];

/** What all clients share. */
export interface Service {
  url: URL;
  /** From a kill of the runtime until it answers again. */
  isDown: boolean;
  /** The pets of all 201 responses. */
  acknowledged: Pet[];
  /** The names of POSTs without a response: these pets may be stored. */
  interrupted: Set<string>;
  problems: string[];
}

/** A POST. Each name is sent once, or several times with the same Idempotency-Key. */
interface Creation {
  name: string;
  idempotencyKey?: string;
}

/** Only to end what hangs. */
export const TIMEOUT_MS = 30_000;

export class Client {
  readonly ledger: Ledger;
  readonly profile: Profile;
  readonly secret: string;
  readonly #service: Service;
  readonly #toRepeat: Creation[] = [];
  #turn = 0;

  constructor(profile: Profile, secret: string, service: Service) {
    this.profile = profile;
    this.secret = secret;
    this.#service = service;
    this.ledger = new Ledger(profile.limits);
  }

  /** Sends bursts at the client's rate until the signal is aborted. */
  async sendBursts(signal: AbortSignal): Promise<void> {
    const everyMs = 60_000 * (this.profile.burst / this.profile.perMinute);
    await wait(Math.random() * everyMs);
    while (!signal.aborted) await Promise.all([wait(everyMs), ...this.burst()]);
  }

  burst(): Promise<void>[] {
    return Array.from({ length: this.profile.burst }, () => this.#send(this.#next()));
  }

  /** Sends what is still to be repeated. */
  async repeat(): Promise<void> {
    for (const creation of this.#toRepeat.splice(0)) await this.#send(creation);
  }

  /** The next POST. Undefined for a list. In a burst, a repetition is sent at the same time as the first. */
  #next(): Creation | undefined {
    const repeated = this.#toRepeat.shift();
    if (repeated) return repeated;
    this.#turn += 1;
    if (this.#turn % 3 === 0 && !this.profile.isWriter) return undefined;
    if (this.#turn % 2 === 0) return { name: randomUUID() };
    const creation = { name: randomUUID(), idempotencyKey: randomUUID() };
    this.#toRepeat.push(creation);
    return creation;
  }

  async #send(creation?: Creation): Promise<void> {
    const { url, acknowledged, problems } = this.#service;
    const sentAtMs = Date.now();
    try {
      const init = { ...this.#init(creation), signal: AbortSignal.timeout(TIMEOUT_MS) };
      const response = await fetch(new URL("/v1/pets", url), init);
      const body = await response.text();
      const { status, headers } = response;
      this.ledger.record({ status, headers, sentAtMs, cameAtMs: Date.now() });
      if (status === 201) acknowledged.push(parse(body));
      else if (status !== 429 && (status !== 200 || creation))
        problems.push(`a response was ${status}: ${body}`);
    } catch (error) {
      if (this.#service.isDown) this.#interrupt(creation);
      else problems.push(`a request got no response: ${inspect(error)}`);
    }
  }

  #init(creation?: Creation): RequestInit {
    // The runtime closes a connection after five idle seconds, also while a request is on its way.
    const headers = new Headers({ Authorization: `Bearer ${this.secret}`, Connection: "close" });
    if (creation === undefined) return { headers };
    headers.set("Content-Type", "application/json");
    if (creation.idempotencyKey) headers.set(HEADER.idempotencyKey, creation.idempotencyKey);
    return { method: "POST", headers, body: JSON.stringify({ name: creation.name, categoryId: 1 }) };
  }

  /** A kill has left the request without a response. */
  #interrupt(creation?: Creation): void {
    this.ledger.interrupted += 1;
    if (creation) this.#service.interrupted.add(creation.name);
    if (creation?.idempotencyKey) this.#toRepeat.push(creation);
  }
}
