// The client: its options, and a method for each operation of the service.

import { type Call, type CallOptions, type Hooks, send, type Transport } from "./call.ts";
import { parse, randomToken, stringify } from "./json.ts";
import { Pacer } from "./pacer.ts";
import { type Page, PetList } from "./pages.ts";
import type { RateLimit } from "./rate-limit.ts";
import type * as schema from "./schema.ts";
import { VERSION } from "./version.ts";

/** Parameters that may be undefined, which is the same as absent. */
type OrUndefined<Parameters> = { [Name in keyof Parameters]: Parameters[Name] | undefined };

/** A pet to add. A number is accepted for an int64 if it is a safe integer. */
export type NewPet = {
  [Field in keyof schema.NewPet]: bigint extends schema.NewPet[Field]
    ? bigint | number
    : schema.NewPet[Field] | (undefined extends schema.NewPet[Field] ? undefined : never);
};

/** `signal` belongs to single calls; the other options of calls are the defaults of this client's. */
export interface ClientOptions extends Omit<CallOptions, "signal">, Hooks {
  /** The API key, which the operator of the service has issued. */
  apiKey: string;
  /** The URL of the service: https, unless the host is a loopback host. Without a path, /v1 is added. */
  baseURL: string | URL;
  /** Wait before a request that the limits would refuse. The calls of one client share the count. False by default. */
  pace?: boolean | undefined;
  /** Used instead of the global fetch. */
  fetch?: typeof fetch | undefined;
}

export interface CreateOptions extends CallOptions {
  /** 1 to 255 visible ASCII characters. A new one for each call by default, which makes its retries safe. */
  idempotencyKey?: string | undefined;
}

/** A client of the petstore. Methods reject with a `PetstoreError`, or with the reason of the call's signal. */
export class Petstore {
  readonly pets: Pets;
  readonly #calls: Calls;

  /** Throws a TypeError for an invalid option. */
  constructor(options: ClientOptions) {
    this.#calls = new Calls(options);
    this.pets = new Pets(this.#calls);
  }

  /** Gets the limits of the key and its last 30 days. It consumes nothing, and works while the key is limited or banned. */
  async usage(options: CallOptions = {}): Promise<schema.Usage> {
    return this.#calls.make(
      { method: "GET", path: "/usage", read: (text) => JSON.parse(text), isFree: true },
      options,
    );
  }

  /** The limits, by the latest response. */
  get rateLimit(): RateLimit | undefined {
    return this.#calls.rateLimit;
  }
}

export class Pets {
  readonly #calls: Calls;

  constructor(calls: Calls) {
    this.#calls = calls;
  }

  /** Lists pets in the order of their ids: `await` it for one page, or iterate it for all. */
  list(parameters: OrUndefined<schema.ListParameters> = {}, options: CallOptions = {}): PetList {
    return new PetList(defined(parameters), (page) => this.#page(page, options));
  }

  /** Adds a pet, once, however often it retries. Throws a TypeError for a number that is no safe integer. */
  async create(pet: NewPet, { idempotencyKey, ...options }: CreateOptions = {}) {
    const body = stringify(pet);
    const headers = {
      "Content-Type": "application/json",
      "Idempotency-Key": idempotencyKey ?? randomToken(),
    };
    return this.#calls.make({ method: "POST", path: "/pets", headers, body, read: parsePet }, options);
  }

  /**
   * Gets a pet.
   * @deprecated The service removes this operation on 5 December 2030. Use `list`.
   */
  async get(id: bigint | number, options: CallOptions = {}): Promise<schema.Pet> {
    return this.#calls.make(
      { method: "GET", path: `/pets/${encodeURIComponent(stringify(id))}`, read: parsePet },
      options,
    );
  }

  #page(parameters: schema.ListParameters, options: CallOptions): Promise<Page> {
    const query = `${new URLSearchParams(parameters as Record<string, string>)}`;
    const read = (text: string, headers: Headers): Page => {
      const pets = parse<schema.Pet[]>(text);
      pets.forEach(requirePet);
      const [, link] = headers.get("Link")?.match(/<([^>]*)>[^,]*rel="?([^"]* )?next\b/i) ?? [];
      if (link === undefined) return { pets };
      // Only its cursor is used, so that the API key is never sent to the origin of a link.
      const cursor = new URL(link).searchParams.get("cursor");
      // With the same cursor, a walk would never end.
      if (cursor === null || cursor === parameters.cursor) throw new TypeError("no new cursor");
      return { pets, next: { ...parameters, cursor } };
    };
    return this.#calls.make({ method: "GET", path: `/pets${query && `?${query}`}`, read }, options);
  }
}

interface Operation<Result> extends Pick<Call<Result>, "method" | "body" | "read"> {
  path: string;
  headers?: Record<string, string>;
  /** Whether it consumes nothing of the limits. */
  isFree?: boolean;
}

/** What all calls of a client have in common. */
class Calls {
  rateLimit: RateLimit | undefined;
  readonly #base: string;
  readonly #headers: Record<string, string>;
  readonly #defaults: CallOptions;
  readonly #transport: Transport;

  constructor({ apiKey, baseURL, pace = false, fetch, headers, ...options }: ClientOptions) {
    // Otherwise fetch would reject it, with a message that contains it.
    if (typeof apiKey !== "string" || !/^[!-~]+$/.test(apiKey))
      throw new TypeError("apiKey: must be visible ASCII");
    this.#base = readBase(new URL(baseURL));
    // Browsers set their own.
    const { navigator } = globalThis as { navigator?: { userAgent?: string } };
    const isBrowser = navigator?.userAgent?.startsWith("Mozilla");
    this.#headers = {
      Accept: "application/json",
      Authorization: `Bearer ${apiKey}`,
      ...(!isBrowser && { "User-Agent": `petstore-client/${VERSION}` }),
      ...headers,
    };
    this.#defaults = defined(options);
    this.#transport = {
      ...options,
      // Looked up at each call, because programs replace it.
      fetch: fetch ?? ((url, init) => globalThis.fetch(url, init)),
      pacer: pace ? new Pacer() : undefined,
      onRateLimit: (rateLimit) => {
        this.rateLimit = rateLimit;
      },
    };
  }

  make<Result>({ path, isFree, ...operation }: Operation<Result>, options: CallOptions): Promise<Result> {
    const headers = new Headers();
    for (const each of [this.#headers, operation.headers, options.headers]) {
      for (const [name, value] of Object.entries(each ?? {})) headers.set(name, value);
    }
    const transport = isFree ? { ...this.#transport, pacer: undefined } : this.#transport;
    const call = { ...operation, url: this.#base + path, usageURL: `${this.#base}/usage`, headers };
    return send(call, transport, { ...this.#defaults, ...defined(options) });
  }
}

/** HTTPS, or HTTP to a loopback host, because the key is a secret; without credentials, query and fragment. */
const BASE_URL = /^(https:\/\/|http:\/\/(([^/@]+\.)?localhost|127(\.\d+){3}|\[::1\])[:/])[^@?#]*$/;

/** The base URL without a final slash. */
function readBase({ href, origin, pathname }: URL): string {
  if (!BASE_URL.test(href)) throw new TypeError("baseURL: must be https, a host and a path");
  return origin + (pathname.replace(/\/+$/, "") || "/v1");
}

function defined<Values extends object>(values: OrUndefined<Values>): Values {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as Values;
}

function parsePet(text: string): schema.Pet {
  const pet = parse<schema.Pet>(text);
  requirePet(pet);
  return pet;
}

/** Throws if the value is no pet: something else has responded. */
function requirePet({ id, categoryId }: schema.Pet): void {
  if (typeof id !== "bigint" || typeof categoryId !== "bigint") throw new TypeError("not a pet");
}
