// The client: a method for each operation of the service.

import { ApiPromise, type ApiResponse, type Page, PetList } from "./api-promise.ts";
import { Call, type Request, USAGE_PATH } from "./call.ts";
import { type CreateResult, createAll } from "./create-many.ts";
import { parse, randomToken, stringify } from "./json.ts";
import { Limiter } from "./limiter.ts";
import {
  type CallOptions,
  type ClientOptions,
  type CreateOptions,
  defined,
  merge,
  readCallOptions,
  readClientOptions,
  type Settings,
} from "./options.ts";
import type { RateLimit } from "./rate-limit.ts";
import type * as schema from "./schema.ts";

/** Bounds the memory of `createMany` without a limit of concurrency. */
const MAX_READ_AHEAD = 1_000;

/** The parameters of a list. The compiler refuses a list that lacks one of the schema. */
const LIST_PARAMETERS = { limit: 0, status: 0, cursor: 0 } satisfies Record<keyof schema.ListParameters, 0>;

/** The parts of a query, and a fragment. */
const PARTS = /(?<=[?&])([^=&#]+)[^&#]*|#.*/g;

/** Parameters that may be undefined, which is the same as absent. */
type OrUndefined<Parameters> = { [Name in keyof Parameters]: Parameters[Name] | undefined };

/** A pet to add. A number is accepted for an int64 if it is a safe integer. */
export type NewPet = {
  [Field in keyof schema.NewPet]: bigint extends schema.NewPet[Field]
    ? bigint | number
    : schema.NewPet[Field] | (undefined extends schema.NewPet[Field] ? undefined : never);
};

export interface CreateManyOptions<Input> extends Omit<CreateOptions, "idempotencyKey"> {
  /** A function of the pet and its index, or up to 238 characters, to which `-` and the index are added. @default random each time */
  idempotencyKey?: string | ((pet: Input, index: number) => string) | undefined;
  /** Yield the results in the order of the pets, and not as they come. @default true */
  ordered?: boolean | undefined;
}

/** A request for an operation that this package has no method for. */
export interface RequestParameters {
  /** @default GET */
  method?: string | undefined;
  /** Below the base URL, such as `/pets`. */
  path: string;
  /** Parameters that are undefined are left out. */
  query?: Record<string, unknown> | undefined;
  /** Sent as JSON, with bigints as integers. */
  body?: unknown;
}

interface Operation<Data> extends RequestParameters {
  read: Request<Data>["read"];
  caller?: Error;
}

/** Starts a call at once. It rejects with what `operation` throws for an invalid argument. */
type Start = <Data>(operation: () => Operation<Data>, options: CreateOptions) => ApiPromise<Data>;

/**
 * A client of the petstore. Methods reject with a `PetstoreError`, the reason of the call's signal, an error of a hook or of the `apiKey`
 * function, or a TypeError for an invalid argument.
 */
export class Petstore {
  /** Kept when programs are minified. */
  static readonly name = "Petstore";
  readonly pets: Pets;
  readonly #options: ClientOptions;
  readonly #settings: Settings;
  #limiter: Limiter;

  /** Throws a TypeError for an invalid option. */
  constructor(options: ClientOptions = {}) {
    this.#settings = readClientOptions(options);
    const { apiKey, baseURL } = this.#settings;
    // The environment may have changed when it is copied.
    this.#options = { ...defined(options), apiKey, baseURL };
    this.#limiter = new Limiter(this.#settings.maxConcurrency);
    const start: Start = (operation, given) => this.#start(operation, given);
    this.pets = new Pets(start, this.#settings.maxConcurrency);
  }

  /**
   * A client with other options and added headers. With the same key and URL, the two share the known limits and `maxConcurrency`: another
   * one is a TypeError.
   */
  withOptions(options: ClientOptions): Petstore {
    const given = defined(options);
    const { headers: added } = readCallOptions({ headers: given.headers });
    const headers = merge(new Headers(this.#options.headers), added);
    const client = new Petstore({ ...this.#options, ...given, headers });
    const [own, other] = [this.#settings, client.#settings];
    if (own.apiKey !== other.apiKey || own.baseURL !== other.baseURL) return client;
    if (own.maxConcurrency !== other.maxConcurrency)
      throw new TypeError("maxConcurrency: the clients share that of the first");
    client.#limiter = this.#limiter;
    return client;
  }

  /** Gets the limits of the key and its last 30 days. It consumes nothing, and works while the key is limited or banned. */
  usage(options: CallOptions = {}): ApiPromise<schema.Usage> {
    return this.#start(() => ({ path: USAGE_PATH, read: readUsage }), options);
  }

  /** Makes a request for which this package has no method, with all that other calls have. `Data` is what the caller expects. */
  request<Data = unknown>(parameters: RequestParameters, options: CreateOptions = {}): ApiPromise<Data> {
    const read = (text: string) => (text === "" ? undefined : parse(text)) as Data;
    return this.#start(() => ({ ...parameters, read }), options);
  }

  /** The limits, by the latest response. */
  get rateLimit(): RateLimit | undefined {
    return this.#limiter.limits.latest;
  }

  #start<Data>(operation: () => Operation<Data>, options: CreateOptions): ApiPromise<Data> {
    const response = this.#send(operation, options);
    return new ApiPromise(() => response);
  }

  async #send<Data>(operation: () => Operation<Data>, options: CreateOptions): Promise<ApiResponse<Data>> {
    const { idempotencyKey, headers: added, ...others } = readCallOptions(options);
    const { method = "GET", path, query = {}, body, read, caller = new Error() } = operation();
    if (!/^\/[^?#]*$/.test(path)) throw new TypeError("path: must begin with /, and have neither ? nor #");
    const search = `${new URLSearchParams(defined(query) as Record<string, string>)}`;
    const { baseURL } = this.#settings;
    const url = new URL(`${baseURL}${path}${search && `?${search}`}`).href;
    // Dots in a path lead out of it.
    if (!url.startsWith(`${baseURL}/`)) throw new TypeError("path: must stay below the base URL");
    const headers = new Headers(this.#settings.headers);
    if (body !== undefined) headers.set("Content-Type", "application/json");
    // Repeating others is safe.
    if (!/^(GET|HEAD)$/i.test(method)) headers.set("Idempotency-Key", idempotencyKey ?? randomToken());
    const request = {
      method: method.toUpperCase(),
      url,
      // Other query values could be secrets.
      shownURL: url.replace(PARTS, (part, name) => (Object.hasOwn(LIST_PARAMETERS, name) ? part : "…")),
      headers: merge(headers, added),
      body: body === undefined ? body : stringify(body),
      isFree: path === USAGE_PATH,
      read,
      caller,
    };
    const settings = { ...this.#settings, ...(others as Partial<Settings>) };
    return new Call(request, this.#limiter, settings).send();
  }
}

/** The operations of pets: `store.pets`. */
export class Pets {
  readonly #start: Start;
  readonly #maxConcurrency: number;

  constructor(start: Start, maxConcurrency: number) {
    this.#start = start;
    this.#maxConcurrency = maxConcurrency;
  }

  /** Lists pets in the order of their ids: `await` it for one page, or iterate it for all. */
  list(parameters: OrUndefined<schema.ListParameters> = {}, options: CallOptions = {}): PetList {
    const caller = new Error();
    return new PetList(defined(parameters) as schema.ListParameters, async (query) => {
      const unknown = Object.keys(query).find((name) => !Object.hasOwn(LIST_PARAMETERS, name));
      if (unknown !== undefined) throw new TypeError(`${unknown}: there is no such parameter`);
      const read = (text: string, headers: Headers) => readPage(text, headers, query);
      return this.#start(() => ({ path: "/pets", query, read, caller }), options).withResponse();
    });
  }

  /** Adds a pet, once, however often it retries. Rejects with a TypeError for a number that is no safe integer. */
  create(pet: NewPet, options: CreateOptions = {}): ApiPromise<schema.Pet> {
    return this.#start(() => {
      const { categoryId } = pet ?? {};
      if (typeof categoryId === "number" && !Number.isSafeInteger(categoryId))
        throw new TypeError("categoryId: must be a bigint");
      return { method: "POST", path: "/pets", body: pet ?? null, read: readPet };
    }, options);
  }

  /**
   * Adds pets, as many at once as `maxConcurrency` allows and at most 1,000, and yields what became of each. It waits for
   * new minutes, but with the default of `maxWaitMs` not for a new day. With an `idempotencyKey`, repeating it within 24 hours is safe. If
   * the iteration is ended early, pets that were being created may have been added.
   */
  async *createMany<Input extends NewPet>(
    pets: Iterable<Input> | AsyncIterable<Input>,
    options: CreateManyOptions<Input> = {},
  ): AsyncGenerator<CreateResult<Input>, void, undefined> {
    const { ordered = true, idempotencyKey = randomToken(), signal, ...given } = options;
    const others = { ...given, totalTimeoutMs: given.totalTimeoutMs ?? Infinity };
    if (typeof ordered !== "boolean") throw new TypeError("ordered: must be true or false");
    // What a function returns is checked for each pet.
    const isText = typeof idempotencyKey !== "function";
    const lastKey = isText ? idempotencyKey && `${idempotencyKey}-${Number.MAX_SAFE_INTEGER}` : undefined;
    readCallOptions({ ...others, signal, idempotencyKey: lastKey });
    const limit = Math.min(this.#maxConcurrency, MAX_READ_AHEAD);
    yield* createAll(pets, { limit, isOrdered: ordered, signal }, async (pet, index, ended) => {
      const key = isText ? `${idempotencyKey}-${index}` : (idempotencyKey(pet, index) ?? "");
      return this.create(pet, { ...others, signal: ended, idempotencyKey: key }).withResponse();
    });
  }

  /**
   * Gets a pet.
   * @deprecated The service removes this operation on 5 December 2030. Use `list`.
   */
  get(id: bigint | number, options: CallOptions = {}): ApiPromise<schema.Pet> {
    return this.#start(() => ({ path: `/pets/${idText(id)}`, read: readPet }), options);
  }
}

/** The text of an id. Throws a TypeError for a number that may be rounded already, and for what is no integer. */
function idText(id: bigint | number): string {
  if (typeof id !== "bigint" && !Number.isSafeInteger(id)) throw new TypeError("id: must be a bigint");
  return `${id}`;
}

function readPet(text: string): schema.Pet {
  return requirePet(parse<schema.Pet | null>(text));
}

function readPage(text: string, headers: Headers, parameters: schema.ListParameters): Page {
  const pets = parse<schema.Pet[]>(text);
  if (!Array.isArray(pets)) throw new TypeError("not a list of pets");
  pets.forEach(requirePet);
  const links = headers.get("Link")?.split(/,(?=\s*<)/) ?? [];
  const [, link] = links.find((each) => /;\s*rel="?([^"]* )?next\b/i.test(each))?.match(/<([^>]*)>/) ?? [];
  if (link === undefined) return { pets };
  // Only its cursor is used, so that the API key is never sent to the origin of a link.
  const cursor = new URL(link, "https://petstore.invalid").searchParams.get("cursor");
  // With the same cursor, a walk would never end.
  if (cursor === null || cursor === parameters.cursor) throw new TypeError("no new cursor");
  return { pets, next: { ...parameters, cursor } };
}

function readUsage(text: string): schema.Usage {
  const usage = parse<schema.Usage | null>(text);
  if (!usage?.windows) throw new TypeError("not a usage");
  return usage;
}

/** Throws if the value is no pet: something else has responded. */
function requirePet(pet: schema.Pet | null): schema.Pet {
  if (typeof pet?.id !== "bigint" || typeof pet.categoryId !== "bigint") throw new TypeError("not a pet");
  return pet;
}
