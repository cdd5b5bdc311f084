// Checks of every response and of the stored pets: documented status, headers, content type and body; a created pet has the sent
// values; pages follow one another; Idempotency-Keys work; every response belongs to its request.

import { isDeepStrictEqual } from "node:util";
import { findViolations } from "../../support/openapi-validator.ts";
import type { Operation, Parameter } from "./document.ts";
import { exactJson, parseRequest, parseResponse } from "./exact.ts";
import { type Answer, BadAnswer, type Header, type Request, sendBytes } from "./http.ts";
import type { Malformed } from "./malformed.ts";
import { type ExactPet, LIST, nextPath, type Page, PetRecords, pagesFrom } from "./pet-records.ts";
import type { Case } from "./requests.ts";
import type { Service } from "./service.ts";
import type { Samples } from "./slots.ts";

/**
 * On an overloaded machine a part of the service can stall for longer than its deadline, which gives a 503. A read that gets one
 * so late is retried.
 */
const STALL_MS = 2_000;
const TRIES = 3;

const IDEMPOTENCY_KEY = "Idempotency-Key";

/** Counts for the summary. */
export interface Counts {
  requests: number;
  /** Cases and failures, by group and kind. */
  cases: Map<string, { cases: number; failures: number }>;
  statuses: Map<string, number>;
}

/** The values of a body that the document describes, by name. */
type Values = Record<string, unknown>;

export class Checks {
  readonly counts: Counts = { requests: 0, cases: new Map(), statuses: new Map() };
  readonly #service: Service;
  readonly #records = new PetRecords();
  readonly #usedKeys = new Set<string>();
  #latest: Values | undefined;
  #knownIds: string[] = [];
  /** Exhausted keys are admitted again on the next day. */
  readonly #day = new Date().getUTCDate();
  /** What is wrong in the current case. */
  #problems: string[] = [];

  constructor(service: Service) {
    this.#service = service;
  }

  /** Reads the initial pets. Returns ids and cursors, which only the service has. */
  async start(): Promise<Samples> {
    await this.#records.problems(this.read);
    const pages: Page[] = [];
    for (const query of ["limit=100", "limit=7", "limit=1", "limit=3&status=sold"])
      pages.push(...(await Array.fromAsync(pagesFrom(this.read, `${LIST}?${query}`, 12))));
    this.#knownIds = pages.flatMap(({ pets }) => pets.map(({ id }) => `${id}`));
    const cursors = pages.map(({ path }) => queryOf(path).get("cursor"));
    return { petId: this.#knownIds, cursor: cursors.filter((each) => each !== null) };
  }

  /** Sends a case. Returns what is wrong with the responses and with the stored pets. */
  async problems(each: Case | Malformed): Promise<string[]> {
    this.#problems = [];
    try {
      await ("bytes" in each ? this.#sendMalformed(each.bytes) : this.#sendCase(each));
      if ("bytes" in each || !isRead(each.request))
        this.#problems.push(...(await this.#records.problems(this.read)));
    } catch (error) {
      // JSON.parse throws a SyntaxError.
      if (!(error instanceof BadAnswer || error instanceof SyntaxError)) throw error;
      this.#problems.push(error.message);
    }
    const kind = `${each.group}, ${each.kind}`;
    const { cases, failures } = this.counts.cases.get(kind) ?? { cases: 0, failures: 0 };
    this.counts.cases.set(kind, { cases: cases + 1, failures: failures + Math.sign(this.#problems.length) });
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
    this.#count(`${answer.status}`);
    return hasStalled && isRead(request) && tries > 1 ? this.#send(request, tries - 1) : answer;
  }

  #count(status: string): void {
    this.counts.requests += 1;
    this.counts.statuses.set(status, (this.counts.statuses.get(status) ?? 0) + 1);
  }

  async #sendCase(each: Case): Promise<void> {
    const { kind, operation, statuses, allowed } = each;
    const request = kind === "valid" ? this.#withUnusedKey(each.request) : each.request;
    // Every other request has an ID, to check that the response belongs to it.
    const id = this.counts.requests % 2 === 0 ? `fuzz_${this.counts.requests}_`.padEnd(8, "_") : undefined;
    const headers: Header[] = id === undefined ? [] : [["X-Request-Id", id]];
    const answer = await this.#send({ ...request, headers: [...request.headers, ...headers] });
    if (statuses.includes(429) && new Date().getUTCDate() !== this.#day) return;

    await this.#validate(request.method, operation, answer);
    const { status } = answer;
    const isExpected = statuses.includes(status) || this.#isUnknownPet(each, answer);
    this.#expect(isExpected, `the status is ${status} instead of ${statuses.join(" or ")}`, answer);
    this.#expect(id === undefined || answer.headers["x-request-id"] === id, `X-Request-Id is not ${id}`);
    const isAllowed = isDeepStrictEqual(answer.headers.allow?.split(", ").sort(), allowed.toSorted());
    this.#expect(status !== 405 || isAllowed, `Allow is ${answer.headers.allow} instead of ${allowed}`);
    if (status === 201) await this.#checkCreation(request, operation, answer);
    if (status === 200 && kind === "valid" && request.method === "GET")
      await this.#checkReading(each, answer);
  }

  /** A request with another Idempotency-Key, if its own was used. A key may be a string by RFC 9651, section 3.3.3. */
  #withUnusedKey(request: Request): Request {
    const used = this.#usedKeys.size;
    const headers = request.headers.map(([name, value]): Header => {
      if (name !== IDEMPOTENCY_KEY) return [name, value];
      const key = value.startsWith('"') ? value.slice(1, -1).replace(/\\(.)/g, "$1") : value;
      const isUsed = this.#usedKeys.has(key);
      this.#usedKeys.add(isUsed ? `fuzz-${used}` : key);
      return [name, isUsed ? `fuzz-${used}` : value];
    });
    return { ...request, headers };
  }

  /** Validates a response against the OpenAPI document. */
  async #validate(
    method: string,
    operation: Operation | undefined,
    { status, headers, body }: Answer,
  ): Promise<void> {
    const path = operation === undefined ? "/v1/other" : operation.path.replace(/\{[^}]+\}/g, "1");
    if (status !== 204)
      this.#problems.push(...(await findViolations({ method, path, status, headers, body })));
  }

  /** Whether a request for one pet may get this 404 or 410: the pet is unknown, or the operation was removed. */
  #isUnknownPet({ kind, operation, request }: Case, { status }: Answer): boolean {
    const id = kind === "valid" ? petIdOf(request, operation) : undefined;
    return id !== undefined && (status === 410 || (status === 404 && !this.#knownIds.includes(id)));
  }

  /** Checks that a new pet has the sent values and is at its Location. */
  async #checkCreation(request: Request, operation: Operation | undefined, answer: Answer): Promise<void> {
    const pet = parseResponse(answer.body) as ExactPet;
    this.#problems.push(...this.#records.acknowledge(pet));
    const sent = sentValues(request, operation);
    if (operation === undefined || sent === undefined) return;
    const { id, ...fields } = pet;
    this.#expect(isDeepStrictEqual(fields, sent), `the pet is not ${exactJson(sent)}`, answer);
    const location = `${operation.path}/${id}`;
    this.#expect(answer.headers.location === location, `Location is not ${location}`);
    const found = await this.read(location);
    const isSame = found.status === 410 || found.body === answer.body;
    this.#expect(isSame, `the pet differs from ${answer.body}`, found);
    const hasKey = request.headers.some(([name]) => name === IDEMPOTENCY_KEY);
    if (hasKey) await this.#retry(request, operation, sent, answer.body);
    this.#latest = sent;
  }

  /** Checks that a repeated POST gets the same pet, and one with another value of one field a 422. */
  async #retry(request: Request, operation: Operation, value: Values, body: string): Promise<void> {
    const again = await this.#send(request);
    await this.#validate("POST", operation, again);
    this.#expect(again.status === 201 && again.body === body, `the repeated POST did not get ${body}`, again);
    const latest = this.#latest ?? value;
    const names = Object.keys({ ...value, ...latest });
    const differing = names.filter((each) => !isDeepStrictEqual(value[each], latest[each]));
    const name = differing[this.counts.requests % differing.length];
    if (name === undefined) return;
    const other = exactJson({ ...value, [name]: latest[name] });
    const refused = await this.#send({ ...request, body: Buffer.from(other) });
    await this.#validate("POST", operation, refused);
    this.#expect(refused.status === 422, `${other} with the same Idempotency-Key was not refused`, refused);
  }

  /** Checks that a pet is the requested one, and the pages of a list. */
  async #checkReading({ request, operation }: Case, answer: Answer): Promise<void> {
    const body = parseResponse(answer.body) as ExactPet | ExactPet[];
    const id = petIdOf(request, operation);
    this.#expect(id === undefined || ("id" in body && `${body.id}` === id), `the pet is not ${id}`, answer);
    if (Array.isArray(body) && operation !== undefined)
      await this.#checkPages(request, operation, body, nextPath(answer));
  }

  /** Checks the size of a page, and the order and the filter of the page and the next one. */
  async #checkPages(
    { target }: Request,
    { parameters, answer }: Operation,
    pets: ExactPet[],
    next: string | undefined,
  ) {
    const query = queryOf(target);
    const given = ({ name, schema }: Parameter) => query.get(name) ?? `${schema.default}`;
    const limit = Number(parameters.filter(({ name }) => name === "limit").map(given));
    const isFull = next === undefined ? pets.length <= limit : pets.length === limit;
    this.#expect(isFull, `the page has ${pets.length} pets, and the limit is ${limit}`);
    const following = next === undefined ? [] : await Array.fromAsync(pagesFrom(this.read, next, 1));
    const both = [...pets, ...following.flatMap((page) => page.pets)];
    this.#expect(isAscending(both), `the page or the next one, ${next}, is out of order`);
    // A parameter with the name of a field is a filter.
    const filters = parameters.filter(({ name }) => query.has(name) && answer?.items?.properties?.[name]);
    const isFiltered = filters.every((each) => both.every((pet) => `${pet[each.name]}` === given(each)));
    this.#expect(isFiltered, `the page or the next one, ${next}, has pets that do not fit the query`);
  }

  /** Sends malformed bytes, and checks the responses: none, or responses of the HTTP server or of the service. */
  async #sendMalformed(bytes: string): Promise<void> {
    for (const answer of await sendBytes(this.#service.url, bytes)) {
      const isFromService = answer.headers["x-request-id"] !== undefined;
      this.#count(isFromService ? `${answer.status}` : `${answer.status} by the HTTP server`);
      if (isFromService) this.#expect(answer.status < 400 || isError(answer), "the error is wrong", answer);
      else this.#expect(await this.#isRefusal(bytes, answer), "the HTTP server responded", answer);
      if (answer.status === 201)
        this.#problems.push(...this.#records.acknowledge(parseResponse(answer.body) as ExactPet));
    }
    const next = await this.read(`${LIST}?limit=1`);
    this.#expect(next.status === 200, "the server did not survive", next);
  }

  /** The HTTP server may refuse malformed bytes before a Worker gets them. Then the control Worker gets the same response. */
  async #isRefusal(bytes: string, { status, body }: Answer): Promise<boolean> {
    const { controlUrl } = this.#service;
    if (status !== 500 || controlUrl === undefined)
      return status === 501 || status === 505 || (status >= 400 && status < 500);
    return (await sendBytes(controlUrl, bytes)).some((each) => each.status === status && each.body === body);
  }
}

/** Whether an error has the Error shape, and is no 5xx. */
function isError({ status, headers, body }: Answer): boolean {
  if (status >= 500 || headers["content-type"] !== "application/json") return false;
  if (body === "") return true;
  const error = parseResponse(body) as Record<string, unknown>;
  return `${Object.keys(error)}` === "code,message,status" && error.status === BigInt(status);
}

function sentValues({ body }: Request, operation: Operation | undefined): Values | undefined {
  const names = Object.keys(operation?.body?.schema.properties ?? {});
  if (body === undefined || names.length === 0) return undefined;
  const members = Object.entries(parseRequest(Buffer.from(body).toString()) as object);
  return Object.fromEntries(members.filter(([name]) => names.includes(name)));
}

/** The requested id, if the operation is for one pet. */
function petIdOf({ target }: Request, operation: Operation | undefined): string | undefined {
  if (!operation?.path.includes("{")) return undefined;
  const [, text = ""] = target.match(new RegExp(`^${operation.path.replace(/\{[^}]+\}/, "([^/?]+)")}`)) ?? [];
  return decodeURIComponent(text);
}

function queryOf(target: string): URLSearchParams {
  return new URL(target, "http://localhost").searchParams;
}

function isAscending(pets: ExactPet[]): boolean {
  return pets.every(({ id }, index) => index === 0 || (pets[index - 1]?.id ?? id) < id);
}

function isRead({ method }: Request): boolean {
  return method === "GET" || method === "HEAD";
}
