// The requests of a key in turn: reads, POSTs and invalid requests, with checks of their responses.

import { randomUUID } from "node:crypto";
import type { Answer, Outgoing } from "./connections.ts";
import type { Pets } from "./pets.ts";
import type { Problems } from "./problems.ts";

/** Kinds of requests whose latencies are measured together. */
export const KINDS = ["hot list", "other read", "creation", "invalid"] as const;

export type Kind = (typeof KINDS)[number];

/** A request, the status that it must get unless it is refused, and a check of the response. */
export interface PlannedRequest extends Outgoing {
  kind: Kind;
  status: number;
  onAnswer?(answer: Answer): void;
}

type Turn = () => PlannedRequest;

const JSON_CONTENT = { "Content-Type": "application/json" };
const STATUSES = ["available", "pending", "sold", undefined] as const;

/** Values of int64 that rounding would change, and others. */
const CATEGORY_IDS = ["1", "9223372036854775807", "-9223372036854775808", "9007199254740993", "0"];

type Mistake = Omit<Outgoing, "headers"> & { headers?: Record<string, string>; status: number };

const MISTAKES: Mistake[] = [
  { method: "GET", path: "/v1/pets?limit=0", status: 400 },
  { method: "GET", path: "/v1/pets?status=lost", status: 400 },
  { method: "GET", path: "/v1/pets?cursor=AAAA", status: 400 },
  { method: "POST", path: "/v1/pets", body: '{"name":', status: 400 },
  { method: "POST", path: "/v1/pets", body: '{"name":"Rex"}', status: 400 },
  { method: "POST", path: "/v1/pets", body: '{"name":"Rex","categoryId":1.5}', status: 400 },
  {
    method: "POST",
    path: "/v1/pets",
    body: "name=Rex",
    headers: { "Content-Type": "text/plain" },
    status: 415,
  },
  { method: "GET", path: "/v1/pets/no-number", status: 404 },
  { method: "GET", path: "/v1/pets/9223372036854775807", status: 404 },
  { method: "GET", path: "/v1/store/order", status: 404 },
  { method: "DELETE", path: "/v1/pets", status: 405 },
  { method: "PUT", path: "/v1/pets/1", body: "{}", status: 405 },
];

/**
 * For clients that are never refused: if the service does not read a large body, workerd closes the connection, even before the
 * client has received the response.
 */
const LARGE_MISTAKE: Mistake = {
  method: "POST",
  path: "/v1/pets",
  body: `"${"x".repeat(70_000)}"`,
  headers: { ...JSON_CONTENT, "Transfer-Encoding": "chunked" },
  status: 413,
};

/** The requests of one key, in turn. */
export class Requests {
  readonly #pets: Pets;
  readonly #problems: Problems;
  readonly #mistakes: Mistake[];
  #sent: number;
  #newPets: number;
  #nextPage: string | undefined;
  /** The latest POST with an Idempotency-Key, and its pet if it is known. */
  #named: { headers: Record<string, string>; body: string; petJson?: string } | undefined;

  /**
   * `first`: the first turn, so that keys differ at the same time. `isNeverRefused`: whether the client stays under its limit.
   */
  constructor(pets: Pets, problems: Problems, first: number, isNeverRefused: boolean) {
    this.#pets = pets;
    this.#problems = problems;
    this.#mistakes = isNeverRefused ? [...MISTAKES, LARGE_MISTAKE] : MISTAKES;
    this.#sent = first;
    this.#newPets = first;
  }

  next(): PlannedRequest {
    const turn = this.#turns[this.#sent % this.#turns.length];
    this.#sent += 1;
    if (turn === undefined) throw new Error("no turn");
    return turn.call(this);
  }

  readonly #turns: Turn[] = [
    this.#firstPage,
    this.#walk,
    this.#firstPage,
    this.#filtered,
    this.#mistake,
    this.#firstPage,
    this.#create,
    this.#walk,
    this.#get,
    this.#firstPage,
    this.#walk,
    this.#createNamed,
    this.#firstPage,
    this.#filtered,
    this.#mistake,
    this.#walk,
    this.#head,
    this.#firstPage,
    this.#repeatNamed,
    this.#walk,
  ];

  /** The list that all keys request. */
  #firstPage(): PlannedRequest {
    return { ...read("/v1/pets"), kind: "hot list" };
  }

  #filtered(): PlannedRequest {
    const status = STATUSES[this.#sent % 3];
    return read(`/v1/pets?limit=${1 + (this.#sent % 100)}&status=${status}`);
  }

  /** The next page, or the first page after the last. */
  #walk(): PlannedRequest {
    const path = this.#nextPage ?? "/v1/pets?limit=100";
    const onAnswer = ({ headers }: Answer) => {
      const target = headers.link?.match(/^<([^>]+)>; rel="next"$/)?.[1];
      const url = target === undefined ? undefined : new URL(target, "http://localhost");
      this.#nextPage = url && url.pathname + url.search;
    };
    return { ...read(path), onAnswer };
  }

  #get(): PlannedRequest {
    const pet = this.#pets.any(this.#sent);
    if (pet === undefined) return this.#firstPage();
    const isSame = ({ body }: Answer) =>
      this.#problems.expect(body === pet.petJson, "a pet has changed", `${body}, not ${pet.petJson}`);
    return { ...read(`/v1/pets/${pet.id}`), onAnswer: isSame };
  }

  #head(): PlannedRequest {
    return { ...read("/v1/pets"), method: "HEAD" };
  }

  #create(): PlannedRequest {
    return this.#creation(this.#newPet(), JSON_CONTENT);
  }

  #createNamed(): PlannedRequest {
    const headers = { ...JSON_CONTENT, "Idempotency-Key": randomUUID() };
    this.#named = { headers, body: this.#newPet() };
    return this.#repeatNamed();
  }

  /** Repeats the POST, or sends it for the first time if it was refused. */
  #repeatNamed(): PlannedRequest {
    const named = this.#named;
    if (named === undefined) return this.#create();
    const onAnswer = ({ body }: Answer) => {
      const isSame = named.petJson === undefined || named.petJson === body;
      this.#problems.expect(
        isSame,
        "a repeated POST got a different response",
        `${body}, not ${named.petJson}`,
      );
      named.petJson = body;
    };
    return this.#creation(named.body, named.headers, onAnswer);
  }

  #creation(
    body: string,
    headers: Record<string, string>,
    onAnswer?: (answer: Answer) => void,
  ): PlannedRequest {
    const onCreated = (answer: Answer) => {
      this.#pets.add(body, answer);
      onAnswer?.(answer);
    };
    return {
      kind: "creation",
      method: "POST",
      path: "/v1/pets",
      headers,
      body,
      status: 201,
      onAnswer: onCreated,
    };
  }

  /** A body with a unique name. */
  #newPet(): string {
    const name = JSON.stringify(`Zoë 🐈 ${randomUUID()}`);
    const categoryId = CATEGORY_IDS[this.#newPets % CATEGORY_IDS.length];
    const status = STATUSES[this.#newPets % STATUSES.length];
    this.#newPets += 1;
    return `{"name":${name},"categoryId":${categoryId}${status === undefined ? "" : `,"status":"${status}"`}}`;
  }

  #mistake(): PlannedRequest {
    // Two of twenty turns are invalid requests.
    const mistake = this.#mistakes[Math.floor(this.#sent / 10) % this.#mistakes.length];
    if (mistake === undefined) throw new Error("no invalid request");
    const headers = mistake.body === undefined ? {} : JSON_CONTENT;
    return { headers, ...mistake, kind: "invalid" };
  }
}

function read(path: string): PlannedRequest {
  return { kind: "other read", method: "GET", path, headers: {}, status: 200 };
}
