// The cases that are measured under load: what each contestant is sent, what it has to answer, and how fast the service
// should be compared with the others.

import { setTimeout as wait } from "node:timers/promises";
import { newSecret } from "../../src/keys/secret.ts";
import { BAN_GRACE_MS, MIN_TOLERATED_REFUSALS } from "../../src/rate-limit/object/quota.ts";
import { type Contestant, type ContestantName, PETS } from "../measure/implementations.ts";
import type { Exchange } from "../measure/load.ts";
import { pagePath } from "./cursor.ts";
import { newKey } from "./pets.ts";

export interface Case {
  name: string;
  title: string;
  /** The slowest that the service may be: its requests per second, divided by those of another contestant. */
  targets: Partial<Record<ContestantName, number>>;
  /** What each contestant is sent. Asked anew before each round. */
  exchanges: Partial<Record<ContestantName, (contestant: Contestant) => Exchange | Promise<Exchange>>>;
}

const PAGE = 20;
const PETS_ON_LAST_PAGE = 10;

/** The first refusal of a minute, and then more than are tolerated after the grace, twice if the minute ends meanwhile. */
const REFUSALS_TO_BAN = 2 * (1 + MIN_TOLERATED_REFUSALS + 1);

export const CASES: Case[] = [
  {
    name: "hot-list",
    title: `GET /v1/pets, ${PAGE} of ${PETS.toLocaleString("en")}`,
    targets: { floor: 0.6, textbook: 20, fastify: 1.2 },
    exchanges: { floor: constantText, textbook: firstPage, fastify: firstPage, petstore: firstPage },
  },
  {
    name: "last-page",
    title: `GET /v1/pets, the last page, ${PETS_ON_LAST_PAGE} pets`,
    targets: { "d1-floor": 0.7 },
    exchanges: { "d1-floor": selectOne, petstore: lastPage },
  },
  {
    name: "create",
    title: "POST /v1/pets",
    targets: { "insert-floor": 0.7 },
    exchanges: { "insert-floor": bareInsert, textbook: creation, fastify: creation, petstore: creation },
  },
  {
    name: "banned-key",
    title: "GET /v1/pets with a key that is banned: 429",
    targets: { floor: 0.6 },
    exchanges: { floor: constantText, petstore: bannedKey },
  },
  {
    name: "wrong-key",
    title: "GET /v1/pets with a key whose checksum is wrong, each from another address: 401",
    targets: { floor: 0.6 },
    exchanges: {
      floor: (contestant) => ({ ...constantText(contestant), freshAddresses: true }),
      petstore: wrongKey,
    },
  },
];

function constantText({ authorization }: Contestant): Exchange {
  return { path: "/", headers: authorization, status: 200, isPlausible: (body) => body === "ok" };
}

function selectOne({ authorization }: Contestant): Exchange {
  return { path: "/", headers: authorization, status: 200, isPlausible: (body) => body === '{"one":1}' };
}

function firstPage({ authorization }: Contestant): Exchange {
  return { path: "/v1/pets", headers: authorization, status: 200, isPlausible: isPage(1, PAGE) };
}

function lastPage({ authorization }: Contestant): Exchange {
  const first = PETS - PETS_ON_LAST_PAGE + 1;
  const path = pagePath(first, PAGE);
  return { path, headers: authorization, status: 200, isPlausible: isPage(first, PETS_ON_LAST_PAGE) };
}

function creation({ authorization }: Contestant): Exchange {
  const headers = { ...authorization, "Content-Type": "application/json" };
  const body = JSON.stringify({ name: "Rex", categoryId: 1, status: "available" });
  return { path: "/v1/pets", method: "POST", headers, body, status: 201, isPlausible: isNewPet };
}

/** The same, for a contestant that reads none of it. */
function bareInsert(contestant: Contestant): Exchange {
  return { ...creation(contestant), path: "/" };
}

/** A new key each time, because a ban ends. */
async function bannedKey({ url, database }: Contestant): Promise<Exchange> {
  if (database === undefined) throw new Error("there is no database to make a key in");
  const headers = { Authorization: `Bearer ${await newKey(database, 1)}` };
  const isPlausible = (body: string) => body.includes('"key_banned"');
  for (let refused = 0; refused < REFUSALS_TO_BAN; refused += 1) {
    const response = await fetch(new URL("/v1/pets", url), { headers });
    if (isPlausible(await response.text())) break;
    if (refused % (REFUSALS_TO_BAN / 2) === 1) await wait(BAN_GRACE_MS + 100);
  }
  return { path: "/v1/pets", headers, status: 429, isPlausible };
}

function wrongKey(): Exchange {
  const secret = newSecret();
  const wrong = secret.slice(0, -1) + (secret.endsWith("0") ? "1" : "0");
  return {
    path: "/v1/pets",
    headers: { Authorization: `Bearer ${wrong}` },
    freshAddresses: true,
    status: 401,
    isPlausible: (body) => body.includes('"unauthorized"'),
  };
}

/** Whether a body has as many pets as it should, from the right one on. */
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
