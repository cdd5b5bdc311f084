// Checks of every response and of the stored pets: documented status, headers, content type and body; a refused request stores
// nothing; every acknowledged pet is in the list; every response belongs to its request.

import { isDeepStrictEqual } from "node:util";
import { findViolations } from "../../support/openapi-validator.ts";
import type { Operation } from "./document.ts";
import {
  type Answer,
  BadAnswer,
  bytesOf,
  Connection,
  type Request,
  readAnswer,
  sendAndEnd,
  textOf,
} from "./http.ts";
import type { Malformed } from "./malformed.ts";
import { type ExactPet, nextPath, PetRecords, parseExact } from "./pet-records.ts";
import type { Case } from "./requests.ts";
import type { Service } from "./service.ts";

/** On every response under /v1. */
const ALWAYS = ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset", "x-request-id"];

const LIST = "/v1/pets";

/**
 * On an overloaded machine a part of the service can stall for longer than its deadline, which gives a 503. A read that gets one
 * so late is retried.
 */
const STALL_MS = 2_000;
const TRIES = 3;

/** Counts for the summary. */
export interface Counts {
  requests: number;
  /** Cases by operation, then by kind. */
  cases: Map<string, Map<string, number>>;
  statuses: Map<string, number>;
}

/** The state that all connections share. */
export class Checks {
  readonly counts: Counts = { requests: 0, cases: new Map(), statuses: new Map() };
  readonly records = new PetRecords();
  readonly service: Service;
  readonly operations: Map<string, Operation>;
  /** The pet of each Idempotency-Key, and the request that uses the key now. */
  readonly #creations = new Map<string, { value: unknown; pet: ExactPet }>();
  readonly #busy = new Map<string, Promise<unknown>>();
  /** The admissions of exhausted keys, by key and reset time. */
  readonly #admissions = new Set<string>();

  constructor(service: Service, operations: Operation[]) {
    this.service = service;
    this.operations = new Map(operations.map((each) => [each.operationId, each]));
  }

  count(operation: string, kind: string): void {
    const kinds = this.counts.cases.get(operation) ?? new Map<string, number>();
    kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
    this.counts.cases.set(operation, kinds);
  }

  countStatus(status: string): void {
    this.counts.statuses.set(status, (this.counts.statuses.get(status) ?? 0) + 1);
  }

  /** Records the admission of a limited key. Returns whether it was within the limit. */
  recordAdmission(secret: string, { headers }: Answer): boolean {
    const admission = `${secret} ${headers["x-ratelimit-reset"]}`;
    if (this.#admissions.has(admission)) return false;
    this.#admissions.add(admission);
    return true;
  }

  /** Serialises POSTs with the same Idempotency-Key, so that their order is known. */
  async alone<Result>(name: string | undefined, run: () => Promise<Result>): Promise<Result> {
    if (name === undefined) return run();
    while (this.#busy.has(name)) await this.#busy.get(name);
    const running = run();
    this.#busy.set(
      name,
      running.catch(() => {}),
    );
    try {
      return await running;
    } finally {
      this.#busy.delete(name);
    }
  }

  creation(name: string | undefined) {
    return name === undefined ? undefined : this.#creations.get(name);
  }

  remember(name: string, value: unknown, pet: ExactPet): void {
    this.#creations.set(name, { value, pet });
  }
}

/** A connection that checks its responses. */
export class CheckedConnection {
  readonly #checks: Checks;
  readonly #connection: Connection;
  readonly #name: string;
  #sent = 0;
  /** The value of the last created pet. */
  #latestValue: unknown;

  constructor(checks: Checks, name: string) {
    this.#checks = checks;
    this.#connection = new Connection(checks.service.url);
    this.#name = name;
  }

  close(): void {
    this.#connection.close();
  }

  /** Records the initial pets. */
  start(): Promise<ExactPet[]> {
    return this.#checks.records.start((path) => this.read(path));
  }

  /** Sends a case. Returns problems of the response and of the stored pets. */
  async problems(each: Case | Malformed): Promise<string[]> {
    try {
      return await ("bytes" in each ? this.#problemsOfMalformed(each) : this.#problemsOfCase(each));
    } catch (error) {
      if (error instanceof BadAnswer) return [error.message];
      if (error instanceof SyntaxError) return [`a response is not JSON: ${error.message}`];
      throw error;
    }
  }

  /** Reads a path with the key that never reaches its limits. */
  read(target: string): Promise<Answer> {
    return this.#send({ method: "GET", target, headers: this.#key() });
  }

  #key(): [string, string][] {
    return [["Authorization", `Bearer ${this.#checks.service.secret}`]];
  }

  async #send(request: Request, tries = TRIES): Promise<Answer> {
    this.#checks.counts.requests += 1;
    const startedMs = performance.now();
    const answer = await this.#connection.exchange(bytesOf(request), request.method);
    const hasStalled = performance.now() - startedMs >= STALL_MS;
    const isRead = request.method === "GET" || request.method === "HEAD";
    if (answer.status === 503 && hasStalled && isRead && tries > 1) {
      this.#checks.countStatus("503 after a stall");
      return this.#send(request, tries - 1);
    }
    this.#checks.countStatus(`${answer.status}`);
    return answer;
  }

  async #problemsOfCase(each: Case): Promise<string[]> {
    this.#checks.count(each.operation, each.kind);
    const name = idempotencyName(each.request);
    return this.#checks.alone(each.value === undefined ? undefined : name, () =>
      this.#problemsAlone(each, name),
    );
  }

  async #problemsAlone(each: Case, name: string | undefined): Promise<string[]> {
    const { request, limited } = each;
    const fits = each.kind === "valid" || limited !== undefined;
    const known = fits ? this.#checks.creation(name) : undefined;
    const isReused = known !== undefined && !isDeepStrictEqual(known.value, each.value);
    let statuses = isReused && limited === undefined ? [422] : each.statuses;

    // Every other request has an ID, to check that the response belongs to it.
    this.#sent += 1;
    const id = this.#sent % 2 === 0 ? `fuzz_${this.#name}_${this.#sent}`.padEnd(8, "_") : undefined;
    const sent: Request =
      id === undefined ? request : { ...request, headers: [...request.headers, ["X-Request-Id", id]] };
    const writes = !["GET", "HEAD", "OPTIONS"].includes(request.method);
    const creationProblems: string[] = [];
    const exchange = async () => {
      const answer = await this.#send(sent);
      if (writes && answer.status === 201) {
        creationProblems.push(...this.#noteCreation(each, answer, name, known?.pet));
      }
      return answer;
    };
    const answer = writes ? await this.#checks.records.storing(exchange) : await exchange();
    if (limited !== undefined && answer.status !== 429) {
      if (!this.#checks.recordAdmission(limited, answer)) return ["a key over its limit was admitted"];
      statuses = [200, 201, 404, 410];
    }

    const problems = [...(await documentProblems(request, answer)), ...creationProblems];
    if (!statuses.includes(answer.status)) {
      problems.push(`the status is ${answer.status} instead of ${statuses.join(" or ")}: ${preview(answer)}`);
    }
    if (!fits && answer.status === 422 && this.#checks.creation(name) !== undefined) {
      problems.push("(the first request got 201)");
    }
    if (id !== undefined && answer.headers["x-request-id"] !== id)
      problems.push(`X-Request-Id is ${answer.headers["x-request-id"]} instead of ${id}`);
    if (each.allowed && !isSameSet(answer.headers.allow, each.allowed))
      problems.push(`Allow is ${answer.headers.allow} instead of ${each.allowed.join(", ")}`);
    if (problems.length > 0) return problems;

    if (answer.status === 201) return this.#problemsOfCreation(each, answer, name, limited);
    if (writes) return this.#checks.records.problems((path) => this.read(path));
    if (answer.status === 200 && request.method === "GET") return this.#problemsOfReading(each, answer);
    return [];
  }

  /** Records an acknowledged pet at once. `earlier`: the pet with the same Idempotency-Key. */
  #noteCreation(each: Case, answer: Answer, name: string | undefined, earlier?: ExactPet): string[] {
    const pet = parseExact(answer) as ExactPet;
    if (earlier !== undefined) {
      const isSame = isDeepStrictEqual(pet, earlier);
      return isSame ? [] : [`a repeated POST got another pet: ${preview(answer)}`];
    }
    // Includes pets that should have been refused: their status is the problem, not the next list.
    if (name !== undefined) this.#checks.remember(name, each.value, pet);
    return this.#checks.records.acknowledge(pet);
  }

  /** Checks that a created pet has the sent fields, is at its Location, and was created once. */
  async #problemsOfCreation(
    each: Case,
    answer: Answer,
    name: string | undefined,
    limited: string | undefined,
  ): Promise<string[]> {
    const pet = parseExact(answer) as ExactPet;
    const value = each.value as Record<string, unknown>;
    const { body: asked, path } = this.#operation(each);
    const problems: string[] = [];
    for (const field of Object.keys(asked?.schema.properties ?? {})) {
      if (!isDeepStrictEqual(pet[field], value[field]))
        problems.push(`${field} is ${jsonPreview(pet[field])} instead of ${jsonPreview(value[field])}`);
    }
    const location = `${path}/${pet.id}`;
    if (answer.headers.location !== location)
      problems.push(`Location is ${answer.headers.location} instead of ${location}`);
    const found = await this.read(location);
    problems.push(...(await documentProblems({ method: "GET", target: location }, found)));
    if (found.status !== 410 && !(found.status === 200 && isDeepStrictEqual(parseExact(found), pet)))
      problems.push(`${location} got ${found.status}: ${preview(found)}`);
    if (name !== undefined && limited === undefined)
      problems.push(...(await this.#problemsOfRepetition(each, pet)));
    this.#latestValue = value;
    return [...problems, ...(await this.#checks.records.problems((page) => this.read(page), pet))];
  }

  /** Checks that a repeated POST gets the same pet, and a different one with the same Idempotency-Key gets 422. */
  async #problemsOfRepetition(each: Case, pet: ExactPet): Promise<string[]> {
    const { request, value } = each;
    const again = await this.#send(request);
    const problems = await documentProblems(request, again);
    if (
      again.status !== 201 ||
      !isDeepStrictEqual(parseExact(again), pet) ||
      !again.headers.location?.endsWith(`/${pet.id}`)
    ) {
      problems.push(`the repeated POST got ${again.status}: ${preview(again)}`);
    }
    if (this.#latestValue === undefined || isDeepStrictEqual(this.#latestValue, value)) return problems;
    const other = { ...request, body: Buffer.from(exactJson(this.#latestValue)) };
    const refused = await this.#send(other);
    problems.push(...(await documentProblems(other, refused)));
    if (refused.status !== 422)
      problems.push(
        `a different POST with the same Idempotency-Key got ${refused.status}: ${preview(refused)}`,
      );
    return problems;
  }

  /** Checks of a list or a pet beyond its schema. */
  async #problemsOfReading(each: Case, answer: Answer): Promise<string[]> {
    const body = parseExact(answer);
    if (each.knownId !== undefined && `${(body as ExactPet).id}` !== each.knownId)
      return [`the pet is not ${each.knownId}: ${preview(answer)}`];
    if (!Array.isArray(body)) return [];
    const pets = body as ExactPet[];
    const query = each.query ?? {};
    const { parameters, answer: schema } = this.#operation(each);
    const problems: string[] = [];
    const limit = Number(query.limit ?? parameters.find(({ name }) => name === "limit")?.schema.default);
    if (pets.length > limit) problems.push(`the list has ${pets.length} pets, more than ${limit}`);
    if (!isAscending(pets)) problems.push("the list is not ordered by id");
    // A parameter with the name of a field is a filter.
    for (const [name, text] of Object.entries(query)) {
      const isFilter = name in (schema.items?.properties ?? {});
      if (isFilter && pets.some((pet) => `${pet[name]}` !== text))
        problems.push(`the list has pets whose ${name} is not ${text}`);
    }
    const next = nextPath(answer);
    if (next === undefined) return problems;
    if (pets.length !== limit)
      problems.push(`a page before the last has ${pets.length} pets instead of ${limit}`);
    const following = await this.read(next);
    problems.push(...(await documentProblems({ method: "GET", target: next }, following)));
    if (
      following.status !== 200 ||
      !isAscending([...pets.slice(-1), ...(parseExact(following) as ExactPet[])])
    )
      problems.push(`the next page, ${next}, got ${following.status}: ${preview(following)}`);
    return problems;
  }

  #operation({ operation }: Case): Operation {
    const found = this.#checks.operations.get(operation);
    if (found === undefined) throw new Error(`the document has no operation ${operation}`);
    return found;
  }

  async #problemsOfMalformed({ what, bytes, ending }: Malformed): Promise<string[]> {
    this.#checks.count("malformed", what);
    this.#checks.counts.requests += 1;
    const problems = await this.#checks.records.storing(async () => {
      const received = await sendAndEnd(this.#checks.service.url, bytes, ending);
      return this.#problemsOfAnswers(bytes, received);
    });
    // The server must survive, and must not merge two requests.
    const next = await this.read(`${LIST}?limit=1`);
    problems.push(...(await documentProblems({ method: "GET", target: `${LIST}?limit=1` }, next)));
    if (next.status !== 200) problems.push(`the next request got ${next.status}: ${preview(next)}`);
    return problems;
  }

  /** Checks the responses to malformed bytes: none, or responses of the HTTP server or of the service. */
  async #problemsOfAnswers(bytes: Uint8Array, received: Uint8Array): Promise<string[]> {
    const problems: string[] = [];
    for (let at = 0; at < received.length; ) {
      const isFirst = at === 0;
      const found = readOne(received.subarray(at), isFirst ? methodOf(bytes) : "GET");
      if (found === undefined) break;
      at += found.length;
      const { answer } = found;
      if (answer.headers["x-request-id"] === undefined) {
        this.#checks.countStatus(`${answer.status} by the HTTP server`);
        problems.push(...(await this.#problemsOfServer(bytes, answer)));
        continue;
      }
      this.#checks.countStatus(`${answer.status}`);
      if (answer.status >= 500) problems.push(`the status is ${answer.status}: ${preview(answer)}`);
      if (answer.status === 201)
        problems.push(...this.#checks.records.acknowledge(parseExact(answer) as ExactPet));
      const seen = isFirst ? await this.#seen(bytes) : undefined;
      problems.push(...(seen === undefined ? basicProblems(answer) : await documentProblems(seen, answer)));
    }
    return problems;
  }

  /** The HTTP server may refuse malformed bytes before a Worker sees them. Other responses must equal the control's. */
  async #problemsOfServer(bytes: Uint8Array, answer: Answer): Promise<string[]> {
    const { status } = answer;
    if ((status >= 400 && status < 500) || status === 501 || status === 505) return [];
    const control = status === 500 ? await this.#control(bytes) : undefined;
    if (control?.status === status && textOf(control.body) === textOf(answer.body)) return [];
    return [`the HTTP server responded instead of the service: ${status}: ${preview(answer)}`];
  }

  /** The method and path that the server reads from the bytes. Undefined if unknown. */
  async #seen(bytes: Uint8Array): Promise<Pick<Request, "method" | "target"> | undefined> {
    const { "seen-method": method, "seen-url": url } = (await this.#control(bytes))?.headers ?? {};
    const [, target] = decodeURIComponent(url ?? "").match(/^https?:\/\/[^/]*(\/[^?#]*)/) ?? [];
    return method === undefined || target === undefined ? undefined : { method, target };
  }

  /** The response of the control Worker to the same bytes. */
  async #control(bytes: Uint8Array): Promise<Answer | undefined> {
    const { controlUrl } = this.#checks.service;
    if (controlUrl === undefined) return undefined;
    return readOne(await sendAndEnd(controlUrl, bytes, "half-close"), methodOf(bytes))?.answer;
  }
}

/** Reads a response of the service, or of the HTTP server, which may send a body to HEAD. */
function readOne(bytes: Uint8Array, method: string) {
  const found = readAnswer(bytes, method, true);
  if (found === undefined || found.answer.headers["x-request-id"] !== undefined) return found;
  const rest = textOf(bytes.subarray(found.length), "latin1");
  return rest === "" || rest.startsWith("HTTP/1.") ? found : readAnswer(bytes, "GET", true);
}

/** Validates a response against the OpenAPI document. */
async function documentProblems(
  { method, target }: Pick<Request, "method" | "target">,
  answer: Answer,
): Promise<string[]> {
  const { status, headers, repeated } = answer;
  const problems = repeated.map((name) => `the header ${name} is repeated`);
  const { pathname, href } = urlOf(target);
  if (!/^\/v1(\/|$)/.test(pathname)) return [...problems, ...basicProblems(answer)];
  problems.push(
    ...ALWAYS.filter((name) => headers[name] === undefined).map((name) => `the header ${name} is missing`),
  );
  if (status === 204) return problems;
  const body = textOf(answer.body);
  if (Buffer.compare(Buffer.from(body), answer.body) !== 0) problems.push("the body is not UTF-8");
  try {
    return [...problems, ...(await findViolations({ method, path: href, status, headers, body }))];
  } catch (error) {
    return [...problems, `the body is not JSON: ${preview(answer)} (${error})`];
  }
}

/** Checks a response to an unknown request: an error must have the Error shape. */
function basicProblems(answer: Answer): string[] {
  const { status, headers, body } = answer;
  const problems = headers["x-request-id"] === undefined ? ["the header x-request-id is missing"] : [];
  if (status < 400 || body.length === 0) return problems;
  if (headers["content-type"] !== "application/json")
    return [...problems, `the content is ${headers["content-type"]}`];
  const error = parseExact(answer) as Record<string, unknown>;
  const isError =
    isDeepStrictEqual(Object.keys(error), ["code", "message", "status"]) && error.status === BigInt(status);
  return isError ? problems : [...problems, `the error is ${preview(answer)}`];
}

/**
 * The path of a target as an equivalent URL: decodes unreserved characters (RFC 3986, section 6.2.2.2), and encodes characters
 * that the URL standard would interpret.
 */
function urlOf(target: string): URL {
  const decoded = target.replace(/%([0-9a-f]{2})/gi, (code, hex: string) => {
    const character = String.fromCharCode(Number.parseInt(hex, 16));
    return /[0-9A-Za-z~_-]/.test(character) ? character : code;
  });
  const [path = ""] = decoded.split(/[?#]/);
  const encoded = path.replace(/[^\w.~%/!$&'()*+,;=:@-]/gu, encodeURIComponent).replace(/%2e/gi, "%252e");
  return new URL(`http://localhost${encoded}`);
}
/** The method of a request, to read its response. */
function methodOf(bytes: Uint8Array): string {
  return /^HEAD[ \t]/.test(textOf(bytes.subarray(0, 5), "latin1")) ? "HEAD" : "GET";
}

/** The Idempotency-Key of a request (bare, or a string by RFC 9651, section 3.3.3) with its API key. */
function idempotencyName({ headers }: Request): string | undefined {
  const header = headers.find(([name]) => name === "Idempotency-Key")?.[1];
  if (header === undefined) return undefined;
  const bare = header.startsWith('"') ? header.slice(1, -1).replace(/\\(.)/g, "$1") : header;
  const [, credential] = headers.find(([name]) => name === "Authorization") ?? [];
  return `${credential?.split(" ").at(-1)} ${bare}`;
}

function isAscending(pets: ExactPet[]): boolean {
  return pets.every(({ id }, index) => index === 0 || (pets[index - 1]?.id as bigint) < (id as bigint));
}

function isSameSet(listed: string | undefined, expected: string[]): boolean {
  return isDeepStrictEqual(listed?.split(", ").sort(), [...expected].sort());
}

function jsonPreview(value: unknown): string {
  return value === undefined ? "nothing" : exactJson(value).slice(0, 400);
}

/** The JSON text of a value with bigint in it. */
function exactJson(value: unknown): string {
  if (typeof value === "bigint") return `${value}`;
  if (Array.isArray(value)) return `[${value.map(exactJson).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  return `{${Object.entries(value)
    .map(([name, each]) => `${JSON.stringify(name)}:${exactJson(each)}`)
    .join(",")}}`;
}

function preview({ body }: Answer): string {
  return textOf(body).slice(0, 400);
}
