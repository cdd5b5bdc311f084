// The clients: each has a key, sends requests above, at or below its limits in turn, and records the responses.

import { randomUUID } from "node:crypto";
import { type NewPet, stringify } from "../../../client/src/index.ts";
import { HEADER } from "../../../src/http/header-names.ts";
import { PLAN_LIMITS, type Plan } from "../../../src/keys/plans.ts";
import type { Limits } from "../../../src/rate-limit/windows.ts";
import { type Answer, type Expect, Ledger } from "./ledger.ts";
import { NAME_PREFIX, type Pets } from "./pets.ts";

/** A request, the status that it must get unless it is refused, and the pet that it adds. */
export interface Planned {
  path: string;
  init: RequestInit;
  status: number;
  pet?: NewPet;
  hasIdempotencyKey?: boolean;
}

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
  { plan: "free", limits: free, perMinute: 30, burst: 1 },
  { plan: "business", limits: business, perMinute: 250, burst: 4 },
  { plan: "enterprise", limits: enterprise(2_000), perMinute: 300, burst: 1 },
];

/** In a burst, the repetition is sent at the same time as the first. */
const WRITES = ["create", "create named", "repeat named", "create named"];
const MIXED = ["list", "filtered", "create", "invalid", "create named", "repeat named", "list"];

/** Values of int64 that rounding would change, and others. */
const CATEGORY_IDS = [1n, 2n ** 63n - 1n, -(2n ** 63n), 2n ** 53n + 1n] as const;

export class Client {
  readonly profile: Profile;
  readonly secret: string;
  readonly ledger: Ledger;
  readonly #pets: Pets;
  readonly #expect: Expect;
  #turn: number;
  /** The latest POST with an Idempotency-Key. */
  #named: Planned | undefined;
  /** Interrupted POSTs with an Idempotency-Key. */
  readonly toRetry: Planned[] = [];

  /** `kills` as in Ledger. */
  constructor(number: number, profile: Profile, secret: string, pets: Pets, kills: number[], expect: Expect) {
    this.profile = profile;
    this.secret = secret;
    this.#pets = pets;
    this.#expect = (holds, kind, detail) => expect(holds, kind, `key ${number} (${profile.plan}): ${detail}`);
    this.ledger = new Ledger(profile.limits, kills, this.#expect);
    // Clients differ at the same time.
    this.#turn = number;
  }

  /** The requests to send now, at once. */
  burst(): Planned[] {
    return Array.from({ length: this.profile.burst }, () => this.#next());
  }

  record({ path, status, pet }: Planned, answer: Answer): void {
    if (!this.ledger.record(answer)) return;
    const kind = `a response was ${answer.status}, not ${status}`;
    this.#expect(answer.status === status, kind, `${path}: ${answer.body.slice(0, 200)}`);
    if (pet !== undefined && answer.status === 201) this.#pets.acknowledge(pet, answer);
  }

  /** A kill has left the request without a response. */
  interrupt(planned: Planned): void {
    this.ledger.interrupt();
    if (planned.pet !== undefined) this.#pets.interrupted.add(planned.pet.name);
    if (planned.hasIdempotencyKey) this.toRetry.push(planned);
  }

  #next(): Planned {
    this.#turn += 1;
    const kinds = this.profile.isWriter ? WRITES : MIXED;
    switch (kinds[this.#turn % kinds.length]) {
      case "create":
        return this.#create();
      case "create named":
        this.#named = this.toRetry.shift() ?? this.#create(randomUUID());
        return this.#named;
      case "repeat named":
        return this.#named ?? this.#create();
      case "filtered":
        return this.#read(`/v1/pets?limit=${1 + (this.#turn % 100)}&status=sold`);
      case "invalid":
        return this.#read("/v1/pets?limit=0", 400);
      default:
        return this.#read("/v1/pets");
    }
  }

  #read(path: string, status = 200): Planned {
    return { path, init: { headers: { Authorization: `Bearer ${this.secret}` } }, status };
  }

  /** A POST of a pet with a unique name. */
  #create(idempotencyKey?: string): Planned {
    const categoryId = CATEGORY_IDS[this.#turn % CATEGORY_IDS.length] ?? 1n;
    const pet: NewPet = { name: NAME_PREFIX + randomUUID(), categoryId };
    if (this.#turn % 3 !== 0) pet.status = "pending";
    const headers = new Headers({
      Authorization: `Bearer ${this.secret}`,
      "Content-Type": "application/json",
    });
    if (idempotencyKey !== undefined) headers.set(HEADER.idempotencyKey, idempotencyKey);
    const init = { method: "POST", headers, body: stringify(pet) };
    return { path: "/v1/pets", init, status: 201, pet, hasIdempotencyKey: idempotencyKey !== undefined };
  }
}
