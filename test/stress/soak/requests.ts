// What a key sends, in turns: reads of all kinds, creations, and mistakes; and whether the answers are the right ones.

import { randomUUID } from "node:crypto";
import type { Answer, Outgoing } from "./connections.ts";
import type { Pets } from "./pets.ts";
import type { Problems } from "./problems.ts";

/** Kinds of requests whose times are measured together. */
export const KINDS = ["hot list", "other read", "creation", "mistake"] as const;

export type Kind = (typeof KINDS)[number];

/** A request, which status it has to get unless it is refused, and what else must be so. */
export interface Asked extends Outgoing {
  kind: Kind;
  status: number;
  onAnswer?(answer: Answer): void;
}

type Turn = () => Asked;

const JSON_CONTENT = { "Content-Type": "application/json" };
const STATUSES = ["available", "pending", "sold", undefined] as const;

/** Any int64 is a category; these are the ones that are easily spoiled. */
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
 * For those only who are never refused: a large body that the service does not read, be it announced or refused, makes
 * workerd hang up, whether a client has sent it all, and received the answer, or not.
 */
const LARGE_MISTAKE: Mistake = {
  method: "POST",
  path: "/v1/pets",
  body: `"${"x".repeat(70_000)}"`,
  headers: { ...JSON_CONTENT, "Transfer-Encoding": "chunked" },
  status: 413,
};

/** The requests of one key, one after the other. */
export class Requests {
  readonly #pets: Pets;
  readonly #problems: Problems;
  readonly #mistakes: Mistake[];
  #sent: number;
  #newPets: number;
  #nextPage: string | undefined;
  /** The latest creation with an Idempotency-Key, and the pet that it made as far as that is known. */
  #named: { headers: Record<string, string>; body: string; petJson?: string } | undefined;

  /**
   * `first`: where in the row of turns it begins, so that not all keys do the same at the same time. `isNeverRefused`: it
   * stays under its limit.
   */
  constructor(pets: Pets, problems: Problems, first: number, isNeverRefused: boolean) {
    this.#pets = pets;
    this.#problems = problems;
    this.#mistakes = isNeverRefused ? [...MISTAKES, LARGE_MISTAKE] : MISTAKES;
    this.#sent = first;
    this.#newPets = first;
  }

  next(): Asked {
    const turn = this.#turns[this.#sent % this.#turns.length];
    this.#sent += 1;
    if (turn === undefined) throw new Error("there is no turn");
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

  /** What everybody asks for. */
  #firstPage(): Asked {
    return { ...read("/v1/pets"), kind: "hot list" };
  }

  #filtered(): Asked {
    const status = STATUSES[this.#sent % 3];
    return read(`/v1/pets?limit=${1 + (this.#sent % 100)}&status=${status}`);
  }

  /** A page further than last time, or the first one again. */
  #walk(): Asked {
    const path = this.#nextPage ?? "/v1/pets?limit=100";
    const onAnswer = ({ headers }: Answer) => {
      const target = headers.link?.match(/^<([^>]+)>; rel="next"$/)?.[1];
      const url = target === undefined ? undefined : new URL(target, "http://localhost");
      this.#nextPage = url && url.pathname + url.search;
    };
    return { ...read(path), onAnswer };
  }

  #get(): Asked {
    const pet = this.#pets.any(this.#sent);
    if (pet === undefined) return this.#firstPage();
    const isSame = ({ body }: Answer) =>
      this.#problems.expect(body === pet.petJson, "a pet is not what it was", `${body}, not ${pet.petJson}`);
    return { ...read(`/v1/pets/${pet.id}`), onAnswer: isSame };
  }

  #head(): Asked {
    return { ...read("/v1/pets"), method: "HEAD" };
  }

  #create(): Asked {
    return this.#creation(this.#newPet(), JSON_CONTENT);
  }

  #createNamed(): Asked {
    const headers = { ...JSON_CONTENT, "Idempotency-Key": randomUUID() };
    this.#named = { headers, body: this.#newPet() };
    return this.#repeatNamed();
  }

  /** The same creation once more, or for the first time if it was refused. */
  #repeatNamed(): Asked {
    const named = this.#named;
    if (named === undefined) return this.#create();
    const onAnswer = ({ body }: Answer) => {
      const isSame = named.petJson === undefined || named.petJson === body;
      this.#problems.expect(
        isSame,
        "a repeated creation has another answer",
        `${body}, not ${named.petJson}`,
      );
      named.petJson = body;
    };
    return this.#creation(named.body, named.headers, onAnswer);
  }

  #creation(body: string, headers: Record<string, string>, onAnswer?: (answer: Answer) => void): Asked {
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

  /** A body whose name nobody else has. */
  #newPet(): string {
    const name = JSON.stringify(`Zoë 🐈 ${randomUUID()}`);
    const categoryId = CATEGORY_IDS[this.#newPets % CATEGORY_IDS.length];
    const status = STATUSES[this.#newPets % STATUSES.length];
    this.#newPets += 1;
    return `{"name":${name},"categoryId":${categoryId}${status === undefined ? "" : `,"status":"${status}"`}}`;
  }

  #mistake(): Asked {
    // Two turns of twenty are mistakes.
    const mistake = this.#mistakes[Math.floor(this.#sent / 10) % this.#mistakes.length];
    if (mistake === undefined) throw new Error("there is no mistake");
    const headers = mistake.body === undefined ? {} : JSON_CONTENT;
    return { headers, ...mistake, kind: "mistake" };
  }
}

function read(path: string): Asked {
  return { kind: "other read", method: "GET", path, headers: {}, status: 200 };
}
