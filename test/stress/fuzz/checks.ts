// Checks of every response and of the stored pets: documented status, headers, content type and body, and for each operation, what a
// response must say beyond the document.

import { isDeepStrictEqual } from "node:util";
import { HEADER } from "../../../src/http/header-names.ts";
import type { OperationId } from "../../../src/http/operations.ts";
import type { UsageBody } from "../../../src/keys/usage/usage-body.ts";
import { findViolations } from "../../support/openapi-validator.ts";
import type { Operation, Schema } from "./document.ts";
import type { Answer, Header, Request } from "./http.ts";
import { exactJson, parseRequest, parseResponse } from "./json.ts";
import { type ExactPet, nextPath, Pets } from "./pets.ts";
import type { Case } from "./requests.ts";
import type { Service } from "./service.ts";
import type { Samples } from "./slots.ts";

/**
 * On an overloaded machine a part of the service can stall for longer than its deadline, which gives a 503. A read that gets one
 * so late is retried.
 */
const STALL_MS = 2_000;
const TRIES = 3;

/** The values of a body that the document describes, by name. */
type Values = Record<string, unknown>;

/** Checks a response to a request of the operation that has succeeded. */
type SuccessCheck = (answer: Answer, request: Request, operation: Operation) => void | Promise<void>;

export class Checks {
  readonly service: Service;
  /** How many requests were sent, how many cases of each kind, and how many got each status. */
  sent = 0;
  readonly counts = new Map<string, number>();
  readonly #pets = new Pets();
  readonly #usedKeys = new Set<string>();
  #latest: Values | undefined;
  #knownIds: string[] = [];

  constructor(service: Service) {
    this.service = service;
  }

  /** What each operation must do. */
  readonly #successes: Record<OperationId, SuccessCheck> = {
    listPets: (...exchange) => this.#checkPage(...exchange),
    createPet: (...exchange) => this.#checkCreation(...exchange),
    getPet: (...exchange) => this.#checkPet(...exchange),
    getUsage: (answer) => this.#checkUsage(answer),
  };

  /** Reads the initial pets. Returns ids and cursors, which only the service has. */
  async start(): Promise<Samples> {
    await this.#pets.readEnd(this.#read, false);
    this.#knownIds = this.#pets.all.map(({ id }) => `${id}`);
    return { petId: this.#knownIds, cursor: this.#pets.cursors };
  }

  /** Sends a case. Throws what is wrong with a response or with the stored pets. */
  async check(each: Case): Promise<void> {
    try {
      await this.#sendCase(each);
      if (!isRead(each.request)) await this.#pets.readEnd(this.#read, true);
    } catch (error) {
      // Another case must not fail for the same reason.
      await this.#pets.readEnd(this.#read, false);
      throw error;
    }
  }

  /** Reads a path with the key that never reaches its limits. */
  readonly #read = (target: string): Promise<Answer> =>
    this.#send({ method: "GET", target, headers: [["Authorization", `Bearer ${this.service.secret}`]] });

  async #send(request: Request, tries = TRIES): Promise<Answer> {
    const startedMs = performance.now();
    const answer = await this.service.send(request);
    const hasStalled = answer.status === 503 && performance.now() - startedMs >= STALL_MS;
    this.sent += 1;
    return hasStalled && isRead(request) && tries > 1 ? this.#send(request, tries - 1) : answer;
  }

  async #sendCase({ kind, operation, request: planned, statuses, allowed }: Case): Promise<void> {
    const isValid = kind.endsWith(" valid");
    const request = isValid ? this.#withUnusedKey(planned) : planned;
    const answer = await this.#send(request);
    const { status } = answer;
    for (const name of [kind, `status ${status}`]) this.counts.set(name, (this.counts.get(name) ?? 0) + 1);
    const petId = isValid ? petIdOf(request, operation) : undefined;
    // The pet is unknown, or the operation was removed.
    const absence = petId === undefined ? [] : this.#knownIds.includes(petId) ? [410] : [404, 410];
    const isExpected = [...statuses, ...absence].includes(status);
    expect(isExpected, `the status is ${status} instead of ${statuses.join(" or ")}`, answer);
    await validate(request, operation, answer);
    const isAllowed = isDeepStrictEqual(answer.headers.allow?.split(", ").sort(), allowed.toSorted());
    expect(status !== 405 || isAllowed, `Allow is not ${allowed}`, answer);
    if (operation?.method === request.method && operation.successes.includes(status))
      await this.#successes[operation.operationId](answer, request, operation);
  }

  /** A request with another Idempotency-Key, if its own was used. A key may be a string by RFC 9651, section 3.3.3. */
  #withUnusedKey(request: Request): Request {
    const headers = request.headers.map(([name, value]): Header => {
      if (name !== HEADER.idempotencyKey) return [name, value];
      const key = value.startsWith('"') ? value.slice(1, -1).replace(/\\(.)/g, "$1") : value;
      const unused = this.#usedKeys.has(key) ? `fuzz-${this.#usedKeys.size}` : undefined;
      this.#usedKeys.add(unused ?? key);
      return [name, unused ?? value];
    });
    return { ...request, headers };
  }

  /** A new pet has the sent values and is at its Location. */
  async #checkCreation(answer: Answer, request: Request, operation: Operation): Promise<void> {
    const pet = parseResponse(answer.body) as ExactPet;
    this.#pets.add(pet);
    // The members of the body that the document describes.
    const sent = documentedValues(parseRequest(`${request.body}`), operation.body?.schema ?? {}) as Values;
    const { id, ...fields } = pet;
    expect(isDeepStrictEqual(fields, sent), `the pet is not ${exactJson(sent)}`, answer);
    const location = `${operation.path}/${id}`;
    expect(answer.headers.location === location, `Location is not ${location}`, answer);
    const found = await this.#read(location);
    const isSame = found.status === 410 || found.body === answer.body;
    expect(isSame, `the pet differs from ${answer.body}`, found);
    if (request.headers.some(([name]) => name === HEADER.idempotencyKey))
      await this.#checkRetry(request, operation, sent, answer.body);
    this.#latest = sent;
  }

  /** A repeated POST gets the same pet, and one with another value of one field a 422. */
  async #checkRetry(request: Request, operation: Operation, sent: Values, body: string): Promise<void> {
    const again = await this.#send(request);
    await validate(request, operation, again);
    expect(again.status === 201 && again.body === body, `the repeated POST did not get ${body}`, again);
    const latest = this.#latest ?? sent;
    const names = Object.keys({ ...sent, ...latest });
    const differing = names.filter((each) => !isDeepStrictEqual(sent[each], latest[each]));
    const name = differing[this.sent % differing.length];
    if (name === undefined) return;
    const other = exactJson({ ...sent, [name]: latest[name] });
    const refused = await this.#send({ ...request, body: Buffer.from(other) });
    await validate(request, operation, refused);
    expect(refused.status === 422, `${other} with the same Idempotency-Key was not refused`, refused);
  }

  /** A page and the next one have the right pets. */
  async #checkPage(answer: Answer, { target }: Request, { parameters }: Operation): Promise<void> {
    const next = nextPath(answer);
    const pages = next === undefined ? [answer] : [answer, await this.#read(next)];
    this.#pets.checkPages(target, pages, parameters);
  }

  /** A pet is the requested one. */
  #checkPet(answer: Answer, request: Request, operation: Operation): void {
    const id = petIdOf(request, operation);
    const pet = this.#pets.all.find((each) => `${each.id}` === id);
    const isRequested = isDeepStrictEqual(parseResponse(answer.body), pet);
    expect(isRequested, `the pet is not ${exactJson(pet)}`, answer);
  }

  /** Usage agrees with itself and with its headers. */
  #checkUsage(answer: Answer): void {
    const { minute, day, days } = JSON.parse(answer.body) as UsageBody;
    const isConsistent = [minute, day].every(({ limit, used, remaining }) => used + remaining === limit);
    expect(isConsistent && days.at(-1)?.admitted === day.used, "the numbers disagree", answer);
    const left = answer.headers[HEADER.rateLimit.toLowerCase()]?.match(/(?<=r=)\d+/g)?.map(Number);
    expect(isDeepStrictEqual(left, [minute.remaining, day.remaining]), `the header has ${left}`, answer);
  }
}

function expect(isRight: boolean, problem: string, { status, body }: Answer): void {
  if (!isRight)
    throw new Error(`${problem}; the response is ${status} ${JSON.stringify(body.slice(0, 400))}`);
}

/** Validates a response against the OpenAPI document. */
async function validate(
  { method }: Request,
  operation: Operation | undefined,
  answer: Answer,
): Promise<void> {
  const path = operation?.path.replace(/\{[^}]+\}/g, "1") ?? "/v1/other";
  const violations = await findViolations({ method, path, ...answer });
  expect(violations.length === 0, violations.join("; "), answer);
}

/** A value without the members that the schema does not have, also in nested objects and arrays. */
export function documentedValues(value: unknown, { properties, items }: Schema): unknown {
  if (Array.isArray(value)) return items ? value.map((each) => documentedValues(each, items)) : value;
  if (typeof value !== "object" || value === null || properties === undefined) return value;
  const members = Object.entries(value).flatMap(([name, each]) => {
    const schema = Object.hasOwn(properties, name) ? properties[name] : undefined;
    return schema ? [[name, documentedValues(each, schema)]] : [];
  });
  return Object.fromEntries(members);
}

/** The requested id, if the operation is for one pet. */
function petIdOf({ target }: Request, operation: Operation | undefined): string | undefined {
  if (!operation?.path.includes("{")) return undefined;
  const [, text = ""] = target.match(new RegExp(`^${operation.path.replace(/\{[^}]+\}/, "([^/?]+)")}`)) ?? [];
  return decodeURIComponent(text);
}

function isRead({ method }: Request): boolean {
  return method === "GET" || method === "HEAD";
}
