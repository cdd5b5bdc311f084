// The cases that are measured under load: the exchange of each implementation.

import { setTimeout as wait } from "node:timers/promises";
import { newKeyId, newSecret } from "../../src/keys/secret.ts";
import { BAN_GRACE_MS, MIN_TOLERATED_REFUSALS } from "../../src/limits/object/bans.ts";
import { type Implementation, type ImplementationName, PETS } from "../measure/implementations.ts";
import type { Exchange, Turn } from "../measure/load.ts";
import { whole } from "../measure/report.ts";
import { newKey, pagePath } from "./pets.ts";

export interface LoadCase {
  title: string;
  /** Makes the exchange of each implementation, anew in each round. */
  exchanges: Partial<Record<ImplementationName, (of: Implementation) => Exchange | Promise<Exchange>>>;
}

const PAGE = 20;
const PETS_ON_LAST_PAGE = 10;

/** More than an isolate remembers, so that each request comes from an address that is new to it. */
const FRESH_ADDRESSES = 20_000;

/** Bursts of requests until a key is banned: the first refusals, more than are tolerated, and the news; more if the minute ends. */
const MOST_BURSTS = 5;

export const LOAD_CASES = {
  "hot-list": {
    title: `processor time of GET /v1/pets, the first ${PAGE} of ${whole(PETS)} pets, from caches`,
    exchanges: { floor: constantText, baseline: firstPage, petstore: firstPage },
  },
  "last-page": {
    title: `processor time of GET /v1/pets, the last ${PETS_ON_LAST_PAGE} pets, from the database`,
    exchanges: { floor: selectOne, petstore: lastPage },
  },
  create: {
    title: "processor time of POST /v1/pets",
    exchanges: { floor: bareInsert, petstore: creation },
  },
  "banned-key": {
    title: "processor time of a refusal: a key that is banned, because its window was full",
    exchanges: { floor: constantText, petstore: bannedKey },
  },
  "wrong-key": {
    title: "processor time of a refusal: a wrong checksum in the key, each from another address",
    exchanges: {
      floor: (implementation) => fromFreshAddresses(constantText(implementation)),
      petstore: wrongKey,
    },
  },
} as const satisfies Record<string, LoadCase>;

function constantText({ authorization }: Implementation): Exchange {
  return { path: "/", headers: authorization, status: 200, isExpected: (body) => body === "ok" };
}

function selectOne({ authorization }: Implementation): Exchange {
  return { path: "/one", headers: authorization, status: 200, isExpected: (body) => body === '{"one":1}' };
}

function firstPage({ authorization }: Implementation): Exchange {
  return { path: "/v1/pets", headers: authorization, status: 200, isExpected: isPage(1, PAGE) };
}

function lastPage({ authorization }: Implementation): Exchange {
  const first = PETS - PETS_ON_LAST_PAGE + 1;
  const path = pagePath(first, PAGE);
  return { path, headers: authorization, status: 200, isExpected: isPage(first, PETS_ON_LAST_PAGE) };
}

function creation({ authorization }: Implementation): Exchange {
  const headers = { ...authorization, "Content-Type": "application/json" };
  const body = JSON.stringify({ name: "Rex", categoryId: 1, status: "available" });
  return { path: "/v1/pets", method: "POST", headers, body, status: 201, isExpected: isNewPet };
}

/** The same request, for an implementation that ignores it. */
function bareInsert(implementation: Implementation): Exchange {
  return { ...creation(implementation), path: "/" };
}

/** Bans a new key each time, because bans end. */
async function bannedKey({ url, databases }: Implementation): Promise<Exchange> {
  const headers = { Authorization: `Bearer ${await newKey(databases.keys, 1)}` };
  const isExpected = (body: string) => body.includes('"key_banned"');
  const isBanned = async () => isExpected(await (await fetch(new URL("/v1/pets", url), { headers })).text());
  for (let burst = 0; burst < MOST_BURSTS && !(await isBanned()); burst += 1) {
    await Promise.all(Array.from({ length: MIN_TOLERATED_REFUSALS + 1 }, isBanned));
    await wait(BAN_GRACE_MS + 100);
  }
  return { path: "/v1/pets", headers, status: 429, isExpected };
}

function wrongKey(): Exchange {
  const secret = newSecret(newKeyId());
  const wrong = secret.slice(0, -1) + (secret.endsWith("0") ? "1" : "0");
  return fromFreshAddresses({
    path: "/v1/pets",
    headers: { Authorization: `Bearer ${wrong}` },
    status: 401,
    isExpected: (body) => body.includes('"unauthorized"'),
  });
}

function fromFreshAddresses(exchange: Exchange): Exchange {
  const turns = Array.from({ length: FRESH_ADDRESSES }, (_, index): Turn => {
    const address = `10.0.${Math.floor(index / 256)}.${index % 256}`;
    return { path: exchange.path, header: ["CF-Connecting-IP", address] };
  });
  return { ...exchange, turns };
}

/** Whether a body has the expected number of pets, from the expected one on. */
function isPage(firstId: number, length: number): (body: string) => boolean {
  return (body) => {
    const pets: { id: number; name: string }[] = JSON.parse(body);
    return pets.length === length && pets[0]?.id === firstId && pets[0].name.startsWith("Pet ");
  };
}

function isNewPet(body: string): boolean {
  const { id, name } = JSON.parse(body);
  return id > PETS && name === "Rex";
}
