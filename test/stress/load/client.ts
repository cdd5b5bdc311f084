// A client: it has a key, sends requests above, at or below its limits, and records the responses.

import { setTimeout as wait } from "node:timers/promises";
import { inspect } from "node:util";
import { ApiError, type Pet, Petstore, RateLimitError } from "../../../client/src/index.ts";
import { HEADER } from "../../../src/http/header-names.ts";
import { type Limits, PLAN_LIMITS, type Plan } from "../../../src/keys/plans.ts";
import { keyIdOf } from "../../../src/keys/secret.ts";
import { Random } from "../../simulation/random.ts";
import { WAIT_MS } from "../../support/hang.ts";
import { limitsWith } from "../../support/key-record.ts";
import { SEED } from "../../support/seed.ts";
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
const enterprise = (minute: number, day = 1_000_000) => limitsWith({ minute, day });

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

const random = new Random(SEED);

/** Keeps from the client what the limits are, so that it also sends what they refuse. */
async function fetchWithoutLimits(url: string | URL | Request, init?: RequestInit): Promise<Response> {
  const response = await fetch(url, init);
  const headers = new Headers(response.headers);
  for (const name of [HEADER.rateLimit, HEADER.rateLimitPolicy, HEADER.retryAfter]) headers.delete(name);
  return new Response(response.body, { status: response.status, headers });
}

export class Client {
  readonly profile: Profile;
  readonly secret: string;
  readonly ledger: Ledger;
  readonly #service: Service;
  readonly #petstore: Petstore;
  /** Names of pets to add once more, with the same Idempotency-Key. */
  readonly #toRepeat: string[] = [];
  #turn = 0;

  constructor(profile: Profile, secret: string, service: Service) {
    this.profile = profile;
    this.secret = secret;
    this.ledger = new Ledger(profile.limits);
    this.#service = service;
    this.#petstore = new Petstore({
      apiKey: secret,
      baseURL: service.url,
      // The runtime closes a connection after five idle seconds, also while a request is on its way.
      headers: { Connection: "close" },
      maxRetries: 0,
      timeoutMs: WAIT_MS,
      maxConcurrency: Infinity,
      fetch: fetchWithoutLimits,
      onResponse: (response) => this.ledger.record(response, Date.now()),
    });
  }

  /** Sends bursts at the client's rate until the signal is aborted. */
  async sendBursts(signal: AbortSignal): Promise<void> {
    const everyMs = 60_000 * (this.profile.burst / this.profile.perMinute);
    await wait(random.next() * everyMs);
    while (!signal.aborted) await Promise.all([wait(everyMs), ...this.burst()]);
  }

  burst(): Promise<void>[] {
    return Array.from({ length: this.profile.burst }, () => this.#send(this.#next()));
  }

  /** Sends what is still to be repeated. */
  async repeat(): Promise<void> {
    for (const name of this.#toRepeat.splice(0)) await this.#send(name);
  }

  /** The name of the next pet to add. Undefined for a list. In a burst, a repetition is sent at the same time as the first. */
  #next(): string | undefined {
    const repeated = this.#toRepeat.shift();
    if (repeated) return repeated;
    this.#turn += 1;
    if (this.#turn % 2 === 0 && !this.profile.isWriter) return undefined;
    const name = `${keyIdOf(this.secret)}-${this.#turn}`;
    this.#toRepeat.push(name);
    return name;
  }

  async #send(name?: string): Promise<void> {
    const { pets } = this.#petstore;
    try {
      if (name === undefined) await pets.list();
      else
        this.#service.acknowledged.push(await pets.create({ name, categoryId: 1 }, { idempotencyKey: name }));
    } catch (error) {
      if (error instanceof RateLimitError) return;
      if (error instanceof ApiError || !this.#service.isDown) this.#service.problems.push(inspect(error));
      else this.#interrupt(name);
    }
  }

  /** A kill has left the request without a response. */
  #interrupt(name?: string): void {
    this.ledger.interrupted += 1;
    if (name === undefined) return;
    this.#service.interrupted.add(name);
    this.#toRepeat.push(name);
  }
}
