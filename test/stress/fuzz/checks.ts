// Checks of every response and of the stored pets: documented status, headers, content type and body, and for each operation, what a
// response must say beyond the document.

import assert from "node:assert/strict";
import { isDeepStrictEqual } from "node:util";
import { HEADER } from "../../../src/http/header-names.ts";
import type { OperationId } from "../../../src/http/operations.ts";
import type { UsageBody } from "../../../src/keys/usage/usage-body.ts";
import { INT64_MIN, parseInt64 } from "../../../src/lib/int64.ts";
import { stringifyJson } from "../../../src/lib/json.ts";
import { decodeCursor, encodeCursor } from "../../../src/pets/cursor.ts";
import fc from "../../support/fast-check.ts";
import { HANG_MS } from "../../support/hang.ts";
import { findViolations } from "../../support/openapi-validator.ts";
import { OPERATIONS, type Operation } from "./document.ts";
import { type Case, cases, textOf } from "./requests.ts";
import type { Answer, Request, Service } from "./service.ts";
import { documentedValue, parse } from "./values.ts";

/** Cases with the same seed. Few, so that a failure is repeated quickly. */
const BATCH = 100;

/** The time limit for a batch, and for shrinking a failing request. It ends before its test. */
const BATCH_MS = HANG_MS / 2;

/** A pet with integers as bigint. */
type ExactPet = Record<string, unknown> & { id: bigint };

/** Checks a response of success. */
type SuccessCheck = (answer: Answer, request: Request, operation: Operation) => void | Promise<void>;

const { parameters } = OPERATIONS.find(({ id }) => id === "listPets") as Operation;
const DEFAULT_LIMIT = parameters.find(({ name }) => name === "limit")?.schema.default;
const FILTERS = parameters
  .filter((each) => each.in === "query" && each.name !== "limit" && each.name !== "cursor")
  .map(({ name }) => name);

/** The Idempotency-Keys that this process has sent, unquoted: another pet with one of them would get a 422. */
const usedKeys = new Set<string>();

/**
 * Sends cases in batches, until this many requests were sent. Throws what is wrong, the shrunk request and the seed of its batch if one
 * fails. The first batch has this seed, later batches increment it.
 */
export async function fuzz(service: Service, requests: number, seed: number) {
  const checks = new Checks(service);
  const ids = await checks.start();
  const samples = { petId: ids.map(String), cursor: ids.map(encodeCursor) };
  const property = fc.asyncProperty(cases(service.secret, samples), (each) => checks.check(each));
  const limit = { interruptAfterTimeLimit: BATCH_MS, markInterruptAsFailure: true };
  for (let batch = seed; checks.sent < requests; batch += 1)
    await fc.assert(property, { seed: batch, numRuns: BATCH, includeErrorInReport: true, ...limit });
  return checks;
}

class Checks {
  /** How many requests were sent, how many cases of each kind, and how many got each status. */
  sent = 0;
  readonly counts = new Map<string, number>();
  readonly #service: Service;
  /** The pets that the service must have, in the order of the list. */
  #pets: ExactPet[] = [];

  constructor(service: Service) {
    this.#service = service;
  }

  readonly #successes: Record<OperationId, SuccessCheck> = {
    listPets: (answer, { target }) => this.#checkPages(answer, target),
    createPet: (...exchange) => this.#checkCreation(...exchange),
    getPet: (answer, { target }) => {
      const id = decodeURIComponent(target.replace(/.*\//, ""));
      const pet = this.#pets.find((each) => `${each.id}` === id);
      assert.deepEqual(parseBody<ExactPet>(answer), pet);
    },
    getUsage: ({ headers, body }) => {
      const { windows } = JSON.parse(body) as UsageBody;
      const left = headers[HEADER.rateLimit.toLowerCase()]?.match(/(?<=r=)\d+/g)?.map(Number);
      assert.deepEqual(
        left,
        Object.values(windows).map(({ remaining }) => remaining),
      );
    },
  };

  /** Reads the initial pets. Returns their ids. */
  async start(): Promise<bigint[]> {
    this.#pets = await this.#list("/v1/pets?limit=100");
    return this.#pets.map(({ id }) => id);
  }

  /** Sends a case. Throws what is wrong with a response or with the stored pets. */
  async check(each: Case): Promise<void> {
    const { method, headers } = each.request;
    const key = headers[HEADER.idempotencyKey]?.replace(/["\\]/g, "");
    fc.pre(key === undefined || !usedKeys.has(key));
    if (key !== undefined) usedKeys.add(key);

    const { length } = this.#pets;
    const latest = this.#pets.at(-1);
    const end = latest === undefined ? "/v1/pets" : `/v1/pets?cursor=${encodeCursor(latest.id)}`;
    try {
      await this.#checkResponse(each);
      if (method !== "GET" && method !== "HEAD") await this.#checkPages(await this.#read(end), end);
    } catch (error) {
      // Another case must not fail for the same reason.
      this.#pets.splice(
        Math.max(length - 1, 0),
        Number.POSITIVE_INFINITY,
        ...(await this.#list(end).catch(() => [])),
      );
      throw error;
    }
  }

  async #checkResponse({ kind, operation: id, request, statuses }: Case): Promise<void> {
    const operation = OPERATIONS.find((each) => each.id === id);
    const answer = await this.#send(request, operation?.path.replace(/\{\w+\}/, "1") ?? "/v1/other");
    const { status } = answer;
    for (const name of [kind, `status ${status}`]) this.counts.set(name, (this.counts.get(name) ?? 0) + 1);
    // Where the document has a 410, the operation may have been removed.
    const isExpected = statuses.includes(status) || status === 410;
    assert(isExpected, `the status is not ${statuses.join(" or ")}: ${summary(answer)}`);
    if (operation?.method === request.method && operation.success === status)
      await this.#successes[operation.id](answer, request, operation);
  }

  /** Sends a request, and validates the response. `path` is one of the same operation, if the target is odd. */
  async #send(request: Request, path = request.target): Promise<Answer> {
    this.sent += 1;
    const answer = await this.#service.send(request);
    const violations = await findViolations({ method: request.method, path, ...answer });
    assert(violations.length === 0, `${violations.join("; ")}: ${summary(answer)}`);
    return answer;
  }

  #read(target: string): Promise<Answer> {
    const headers = { Authorization: `Bearer ${this.#service.secret}` };
    return this.#send({ method: "GET", target, headers });
  }

  /** The pets of a page and of all after it. */
  async #list(first: string): Promise<ExactPet[]> {
    const page = await this.#read(first);
    const next = nextPath(page);
    return [...parseBody(page), ...(next === undefined ? [] : await this.#list(next))];
  }

  /** A page and the next one have the right pets. */
  async #checkPages(answer: Answer, target: string): Promise<void> {
    const query = new URL(target, "http://localhost").searchParams;
    const from = decodeCursor(query.get("cursor") ?? "") ?? INT64_MIN;
    const limit = Number(query.get("limit") ?? DEFAULT_LIMIT);
    const filters = [...query].filter(([name]) => FILTERS.includes(name));
    const right = this.#pets
      .slice(this.#pets.findLastIndex(({ id }) => id < from) + 1)
      .filter((pet) => filters.every(([name, value]) => `${pet[name]}` === value));
    assert.deepEqual(parseBody(answer), right.slice(0, limit));
    const next = nextPath(answer);
    assert.equal(next !== undefined, right.length > limit, `the page after ${target} is ${next}`);
    if (next !== undefined)
      assert.deepEqual(parseBody(await this.#read(next)), right.slice(limit, 2 * limit));
  }

  /** A new pet has the sent values and is at its Location. A retry gets the same pet. */
  async #checkCreation(answer: Answer, request: Request, { path, body = {} }: Operation): Promise<void> {
    const pet = parseBody<ExactPet>(answer);
    const sent = documentedValue(body, textOf(`${request.body}`)) as object;
    assert.deepEqual(pet, { id: pet.id, ...sent });
    const { location = "" } = answer.headers;
    assert.equal(location, `${path}/${pet.id}`);
    const found = await this.#read(location);
    assert(found.status === 410 || found.body === answer.body, `${location} has ${summary(found)}`);
    const latest = this.#pets.at(-1);
    assert(latest === undefined || pet.id > latest.id, `the id ${pet.id} was assigned before`);
    this.#pets.push(pet);
    const replayed = HEADER.idempotentReplayed.toLowerCase();
    assert.equal(answer.headers[replayed], undefined);
    if (!(HEADER.idempotencyKey in request.headers)) return;
    const repeated = await this.#send(request);
    assert.deepEqual([repeated.body, repeated.headers[replayed]], [answer.body, "true"]);
    // With the same key, another value of any field is refused.
    for (const [name, value] of Object.entries({ ...latest, id: pet.id })) {
      const other = { ...pet, [name]: value };
      if (isDeepStrictEqual(other, pet)) continue;
      const json = Buffer.from(stringifyJson(other)).toString("latin1");
      const refused = await this.#send({ ...request, body: json });
      assert.equal(refused.status, 422, `${json} got ${summary(refused)}`);
    }
  }
}

/** The body, with integers as bigint, which have only digits. */
function parseBody<Body = ExactPet[]>({ body }: Answer): Body {
  return parse(body, parseInt64) as Body;
}

/** The path of the next page. */
function nextPath({ headers }: Answer): string | undefined {
  return headers.link?.match(/^<https?:\/\/[^/]+([^>]+)>; rel="next"$/)?.[1];
}

function summary({ status, body }: Answer): string {
  return `${status} ${body.slice(0, 400)}`;
}
