// Checks of every response and of the stored pets: documented status, headers, content type and body; every response belongs to its
// request; and for each operation, what a response must say beyond the document.

import { isDeepStrictEqual } from "node:util";
import { HEADER } from "../../../src/http/header-names.ts";
import type { OperationId } from "../../../src/http/operations.ts";
import type { UsageBody } from "../../../src/keys/usage/usage-body.ts";
import { findViolations } from "../../support/openapi-validator.ts";
import type { Operation, Schema } from "./document.ts";
import { exactJson, parseRequest, parseResponse } from "./exact.ts";
import { type Answer, BadAnswer, type Header, type Request } from "./http.ts";
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

/** The data of GET /v1/usage may be one second old. */
const USAGE_AGE_MS = 2_000;

/** Counts for the summary: all requests, those of each kind, and the responses of each status. */
export interface Counts {
  requests: number;
  kinds: Map<string, number>;
  statuses: Map<string, number>;
}

/** The values of a body that the document describes, by name. */
type Values = Record<string, unknown>;

/** Checks a response to a request of the operation that has succeeded. */
type SuccessCheck = (request: Request, operation: Operation, answer: Answer) => Promise<void>;

export class Checks {
  readonly counts: Counts = { requests: 0, kinds: new Map(), statuses: new Map() };
  readonly #service: Service;
  readonly #pets = new Pets();
  readonly #usedKeys = new Set<string>();
  #latest: Values | undefined;
  #knownIds: string[] = [];
  /** The requests of the key that were admitted on this UTC day, at least, and earlier values of that. */
  #admitted = 0;
  #admittedBefore: { atMs: number; dayEnd: number; admitted: number }[] = [];
  /** What is wrong in the current case. */
  #problems: string[] = [];

  constructor(service: Service) {
    this.#service = service;
  }

  /** What each operation must do. */
  readonly #successes: Record<OperationId, SuccessCheck> = {
    listPets: (...exchange) => this.#checkPage(...exchange),
    createPet: (...exchange) => this.#checkCreation(...exchange),
    getPet: (...exchange) => this.#checkPet(...exchange),
    getUsage: (...exchange) => this.#checkUsage(...exchange),
  };

  /** Reads the initial pets. Returns ids and cursors, which only the service has. */
  async start(): Promise<Samples> {
    await this.#pets.checkEnd(this.read);
    this.#knownIds = this.#pets.ids;
    return { petId: this.#knownIds, cursor: this.#pets.cursors };
  }

  /** Sends a case. Returns what is wrong with the responses and with the stored pets. */
  async problems(each: Case): Promise<string[]> {
    this.#problems = [];
    count(this.counts.kinds, `${each.group}, ${each.kind}`);
    try {
      await this.#sendCase(each);
      if (!isRead(each.request)) this.#problems.push(...(await this.#pets.checkEnd(this.read)));
    } catch (error) {
      // JSON.parse throws a SyntaxError.
      if (!(error instanceof BadAnswer || error instanceof SyntaxError)) throw error;
      this.#problems.push(error.message);
    }
    return this.#problems;
  }

  #expect(isRight: boolean, problem: string, answer?: Answer): void {
    const response =
      answer && `; the response is ${answer.status} ${JSON.stringify(answer.body.slice(0, 400))}`;
    if (!isRight) this.#problems.push(problem + (response ?? ""));
  }

  /** Reads a path with the key that never reaches its limits. */
  readonly read = (target: string): Promise<Answer> =>
    this.#send({ method: "GET", target, headers: [["Authorization", `Bearer ${this.#service.secret}`]] });

  async #send(request: Request, tries = TRIES): Promise<Answer> {
    const startedMs = performance.now();
    const answer = await this.#service.send(request);
    const hasStalled = answer.status === 503 && performance.now() - startedMs >= STALL_MS;
    this.counts.requests += 1;
    count(this.counts.statuses, `${answer.status}`);
    return hasStalled && isRead(request) && tries > 1 ? this.#send(request, tries - 1) : answer;
  }

  async #sendCase(each: Case): Promise<void> {
    const { kind, operation, statuses, allowed } = each;
    const request = kind === "valid" ? this.#withUnusedKey(each.request) : each.request;
    // Every other request has an ID, to check that the response belongs to it.
    const id = this.counts.requests % 2 === 0 ? `fuzz_${this.counts.requests}_`.padEnd(8, "_") : undefined;
    const headers: Header[] = id === undefined ? [] : [[HEADER.requestId, id]];
    const answer = await this.#send({ ...request, headers: [...request.headers, ...headers] });
    // The document has no preflights.
    if (each.group !== "preflight") await this.#validate(request.method, operation, answer);
    const { status } = answer;
    const isExpected = statuses.includes(status) || this.#isUnknownPet(each, answer);
    this.#expect(isExpected, `the status is ${status} instead of ${statuses.join(" or ")}`, answer);
    this.#expect(
      id === undefined || answer.headers[HEADER.requestId.toLowerCase()] === id,
      `${HEADER.requestId} is not ${id}`,
    );
    const isAllowed = isDeepStrictEqual(answer.headers.allow?.split(", ").sort(), allowed.toSorted());
    this.#expect(status !== 405 || isAllowed, `Allow is ${answer.headers.allow} instead of ${allowed}`);
    // Also of an invalid request, because it may have changed the pets.
    if (operation?.method === request.method && operation.successes.includes(status))
      await this.#successes[operation.operationId](request, operation, answer);
    const isCounted =
      operation?.operationId !== "getUsage" &&
      answer.headers[HEADER.rateLimit.toLowerCase()]?.includes('"day"');
    if (isCounted && status !== 429) this.#admitted += 1;
  }

  /** A request with another Idempotency-Key, if its own was used. A key may be a string by RFC 9651, section 3.3.3. */
  #withUnusedKey(request: Request): Request {
    const used = this.#usedKeys.size;
    const headers = request.headers.map(([name, value]): Header => {
      if (name !== HEADER.idempotencyKey) return [name, value];
      const key = value.startsWith('"') ? value.slice(1, -1).replace(/\\(.)/g, "$1") : value;
      const isUsed = this.#usedKeys.has(key);
      this.#usedKeys.add(isUsed ? `fuzz-${used}` : key);
      return [name, isUsed ? `fuzz-${used}` : value];
    });
    return { ...request, headers };
  }

  /** Validates a response against the OpenAPI document. */
  async #validate(method: string, operation: Operation | undefined, answer: Answer): Promise<void> {
    const path = operation === undefined ? "/v1/other" : operation.path.replace(/\{[^}]+\}/g, "1");
    this.#problems.push(...(await findViolations({ method, path, ...answer })));
  }

  /** Whether a request for one pet may get this 404 or 410: the pet is unknown, or the operation was removed. */
  #isUnknownPet({ kind, operation, request }: Case, { status }: Answer): boolean {
    const id = kind === "valid" ? petIdOf(request, operation) : undefined;
    return id !== undefined && (status === 410 || (status === 404 && !this.#knownIds.includes(id)));
  }

  /** Checks that a new pet has the sent values and is at its Location. */
  async #checkCreation(request: Request, operation: Operation, answer: Answer): Promise<void> {
    const pet = parseResponse(answer.body) as ExactPet;
    this.#problems.push(...this.#pets.add(pet));
    const sent = sentValues(request, operation);
    const { id, ...fields } = pet;
    this.#expect(isDeepStrictEqual(fields, sent), `the pet is not ${exactJson(sent)}`, answer);
    const location = `${operation.path}/${id}`;
    this.#expect(answer.headers.location === location, `Location is not ${location}`);
    const found = await this.read(location);
    const isSame = found.status === 410 || found.body === answer.body;
    this.#expect(isSame, `the pet differs from ${answer.body}`, found);
    const hasKey = request.headers.some(([name]) => name === HEADER.idempotencyKey);
    if (hasKey) await this.#retry(request, operation, sent, answer.body);
    this.#latest = sent;
  }

  /** Checks that a repeated POST gets the same pet, and one with another value of one field a 422. */
  async #retry(request: Request, operation: Operation, sent: Values, body: string): Promise<void> {
    const again = await this.#send(request);
    await this.#validate("POST", operation, again);
    this.#expect(again.status === 201 && again.body === body, `the repeated POST did not get ${body}`, again);
    const latest = this.#latest ?? sent;
    const names = Object.keys({ ...sent, ...latest });
    const differing = names.filter((each) => !isDeepStrictEqual(sent[each], latest[each]));
    const name = differing[this.counts.requests % differing.length];
    if (name === undefined) return;
    const other = exactJson({ ...sent, [name]: latest[name] });
    const refused = await this.#send({ ...request, body: Buffer.from(other) });
    await this.#validate("POST", operation, refused);
    this.#expect(refused.status === 422, `${other} with the same Idempotency-Key was not refused`, refused);
  }

  /** Checks the pets of a page and of the next one. */
  async #checkPage({ target }: Request, { parameters }: Operation, answer: Answer): Promise<void> {
    const next = nextPath(answer);
    const pages = next === undefined ? [answer] : [answer, await this.read(next)];
    this.#problems.push(...this.#pets.checkPages(target, pages, parameters));
  }

  /** Checks that a pet is the requested one. */
  async #checkPet(request: Request, operation: Operation, answer: Answer): Promise<void> {
    const pet = this.#pets.find(petIdOf(request, operation));
    const isRequested = isDeepStrictEqual(parseResponse(answer.body), pet);
    this.#expect(isRequested, `the pet is not ${exactJson(pet)}`, answer);
  }

  /** Checks that usage agrees with itself and with its headers, and counts the requests of this run. */
  async #checkUsage(_request: Request, _operation: Operation, answer: Answer): Promise<void> {
    const { minute, day, days } = JSON.parse(answer.body) as UsageBody;
    const today = days.at(-1);
    const dayEnd = Date.parse(`${today?.date}`) / 1000 + 86_400;
    const isConsistent = [minute, day].every(({ limit, used, remaining }) => used + remaining === limit);
    this.#expect(isConsistent, "used and remaining are not the limit", answer);
    this.#expect(today?.admitted === day.used && day.reset === dayEnd, "the day is not the last one", answer);
    const left = [...(answer.headers[HEADER.rateLimit.toLowerCase()] ?? "").matchAll(/r=(\d+)/g)].map(
      ([, each]) => Number(each),
    );
    const isShown = isDeepStrictEqual(left, [minute.remaining, day.remaining]);
    this.#expect(isShown, `the header has the remaining requests ${left}`, answer);

    const nowMs = performance.now();
    const earlier = this.#admittedBefore.filter((each) => each.dayEnd === dayEnd);
    // A new day.
    if (earlier.length === 0) this.#admitted = 0;
    const { admitted = 0 } = earlier.findLast(({ atMs }) => nowMs - atMs > USAGE_AGE_MS) ?? {};
    this.#expect(day.used >= admitted, `fewer than the ${admitted} admitted requests are used`, answer);
    this.#admittedBefore = [...earlier, { atMs: nowMs, dayEnd, admitted: this.#admitted }];
  }
}

function count(counts: Map<string, number>, name: string): void {
  counts.set(name, (counts.get(name) ?? 0) + 1);
}

/** The members of a body that the document describes. */
function sentValues({ body }: Request, operation: Operation): Values {
  return documentedValues(parseRequest(`${body}`), operation.body?.schema ?? {}) as Values;
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
