// The cases that are measured under load: the exchange of each implementation, and the targets.

import { setTimeout as wait } from "node:timers/promises";
import { BAN_GRACE_MS, MIN_TOLERATED_REFUSALS } from "../../src/keys/object/bans.ts";
import { newKeyId, newSecret } from "../../src/keys/secret.ts";
import { type Implementation, type ImplementationName, PETS } from "../measure/implementations.ts";
import type { Exchange } from "../measure/load.ts";
import { whole } from "../measure/report.ts";
import { pagePath } from "./cursor.ts";
import { newKey } from "./pets.ts";

export interface Case {
  name: string;
  title: string;
  /** The largest ratio of the service's processor time per response to that of another implementation. */
  targets: Partial<Record<ImplementationName, number>>;
  /** The smallest ratio of requests per second. */
  rateTargets?: Partial<Record<ImplementationName, number>>;
  /** The implementations that must send the headers of the service, or its whole response. */
  same?: Partial<Record<ImplementationName, "headers" | "response">>;
  /** Makes the exchange of each implementation, anew in each round. */
  exchanges: Partial<Record<ImplementationName, (of: Implementation) => Exchange | Promise<Exchange>>>;
}

const PAGE = 20;
const PETS_ON_LAST_PAGE = 10;

/** The minute's first refusal, and after the grace more than are tolerated; twice, because the minute may end meanwhile. */
const REFUSALS_TO_BAN = 2 * (1 + MIN_TOLERATED_REFUSALS + 1);

export const CASES: Case[] = [
  {
    name: "hot-list",
    title: `GET /v1/pets, ${PAGE} of ${whole(PETS)}`,
    targets: { floor: 1.35, "floor-same-response": 1.15, baseline: 0.05, "fastify-same-headers": 1 },
    rateTargets: { "fastify-same-headers": 1 },
    same: { "floor-same-response": "response", "fastify-same-headers": "headers" },
    exchanges: {
      floor: constantText,
      "floor-same-response": firstPage,
      baseline: firstPage,
      fastify: firstPage,
      "fastify-same-headers": firstPage,
      petstore: firstPage,
    },
  },
  {
    name: "last-page",
    title: `GET /v1/pets, the last page, ${PETS_ON_LAST_PAGE} pets`,
    targets: { "d1-floor": 1.4 },
    exchanges: { "d1-floor": selectOne, petstore: lastPage },
  },
  {
    name: "create",
    title: "POST /v1/pets",
    targets: { "insert-floor": 1.2 },
    exchanges: { "insert-floor": bareInsert, baseline: creation, fastify: creation, petstore: creation },
  },
  {
    name: "banned-key",
    title: "GET /v1/pets with a banned key: 429",
    targets: { floor: 1.25 },
    exchanges: { floor: constantText, petstore: bannedKey },
  },
  {
    name: "wrong-key",
    title: "GET /v1/pets with a wrong checksum in the key, each from another address: 401",
    targets: { floor: 1.25 },
    exchanges: {
      floor: (implementation) => ({ ...constantText(implementation), freshAddresses: true }),
      petstore: wrongKey,
    },
  },
];

function constantText({ authorization }: Implementation): Exchange {
  return { path: "/", headers: authorization, status: 200, isExpected: (body) => body === "ok" };
}

function selectOne({ authorization }: Implementation): Exchange {
  return { path: "/", headers: authorization, status: 200, isExpected: (body) => body === '{"one":1}' };
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
  if (databases === undefined) throw new Error("a banned key needs a database");
  const headers = { Authorization: `Bearer ${await newKey(databases.keys, 1)}` };
  const isExpected = (body: string) => body.includes('"key_banned"');
  for (let refused = 0; refused < REFUSALS_TO_BAN; refused += 1) {
    const response = await fetch(new URL("/v1/pets", url), { headers });
    if (isExpected(await response.text())) break;
    if (refused % (REFUSALS_TO_BAN / 2) === 1) await wait(BAN_GRACE_MS + 100);
  }
  return { path: "/v1/pets", headers, status: 429, isExpected };
}

function wrongKey(): Exchange {
  const secret = newSecret(newKeyId());
  const wrong = secret.slice(0, -1) + (secret.endsWith("0") ? "1" : "0");
  return {
    path: "/v1/pets",
    headers: { Authorization: `Bearer ${wrong}` },
    freshAddresses: true,
    status: 401,
    isExpected: (body) => body.includes('"unauthorized"'),
  };
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
