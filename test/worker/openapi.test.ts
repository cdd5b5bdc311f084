// Compares the published document with the service: sends every example, and provokes every status. test/unit/openapi.test.ts tests the
// document itself. test/support/worker/client.ts checks, for all tests, that no response is undocumented and that it has all headers.

import { env } from "cloudflare:workers";
import { beforeEach, expect, it, vi } from "vitest";
import { MAX_BODY_BYTES } from "../../src/http/body.ts";
import { HEADER } from "../../src/http/header-names.ts";
import { OPERATION_IDS, OPERATIONS } from "../../src/http/operations.ts";
import { PREFERENCE } from "../../src/http/server-timing.ts";
import { newKeyId, newSecret } from "../../src/keys/secret.ts";
import { REQUESTS_PER_MINUTE } from "../../src/limits/address-counter.ts";
import { KnownKeys } from "../../src/limits/isolate/known-keys.ts";
import { LookupThrottle } from "../../src/limits/isolate/lookup-throttle.ts";
import { BAN_GRACE_MS } from "../../src/limits/object/bans.ts";
import { EXAMPLE_PETS } from "../../src/openapi/examples.ts";
import type { Description } from "../../src/openapi/operations.ts";
import { insertPet } from "../../src/pets/store.ts";
import * as documented from "../support/openapi-document.ts";
import { interceptStatements } from "../support/worker/bindings.ts";
import {
  acquire,
  banKey,
  batch,
  type Client,
  exhaust,
  fetchWithoutKey,
  invalidatePageCache,
  newAddress,
  newClient,
  POST,
  REX,
} from "../support/worker/client.ts";
import { pass } from "../support/worker/time.ts";

const { DOCUMENT, DOCUMENTED, EXAMPLES, RESPONSES } = documented;
type DocumentedId = documented.DocumentedId;

let client: Client;

beforeEach(async () => {
  client = await newClient();
});

const { examples } = DOCUMENTED.createPet.requestBody.content["application/json"];

/** A request of each operation. */
const REQUESTS: Record<DocumentedId, [path: string, init: RequestInit]> = {
  listPets: ["/v1/pets?limit=2", {}],
  createPet: ["/v1/pets", postOf(examples.complete.value)],
  getPet: ["/v1/pets/1", {}],
  getUsage: ["/v1/usage", {}],
  otherRequests: ["/v1/nowhere", {}],
};

const TRACED = { [HEADER.requestId]: `${DOCUMENT.components.headers[HEADER.requestId]?.example}` };

/** Provokes a response to a new client on the Free plan, like in all examples. */
type Provocation = (user: Client) => Promise<Response>;

/** Provokes the response of each example. `forAny` has the responses that operations share. */
const PROVOCATIONS: Record<string, Provocation> = {
  "listPets 200 firstPage": (user) => request("listPets", TRACED, user.call),
  "listPets 400 limit": (user) => user.get("/v1/pets?limit=0"),
  "listPets 400 status": (user) => user.get("/v1/pets?status=lost"),
  "listPets 400 cursor": (user) => user.get("/v1/pets?cursor=made-up"),
  "createPet 201 complete": (user) => request("createPet", {}, user.call),
  "createPet 201 minimal": async (user) => {
    await request("createPet", {}, user.call);
    return user.call("/v1/pets", postOf(examples.minimal.value));
  },
  "createPet 201 repeated": async (user) => {
    const send = () => user.postOnce(JSON.stringify(examples.complete.value), "order-4711");
    await send();
    return send();
  },
  "createPet 400 missing": (user) => user.post(`{"name":"Rex"}`),
  "createPet 400 json": (user) => user.post("{"),
  "createPet 400 name": (user) => user.postOnce(REX, "order 4711"),
  "createPet 403 readOnly": async () =>
    request("createPet", {}, (await newClient({ plan: "free", access: "read" })).call),
  "createPet 413 large": (user) => user.post(" ".repeat(MAX_BODY_BYTES + 1)),
  "createPet 415 text": (user) => user.post("Rex", { "Content-Type": "text/plain" }),
  "createPet 415 compressed": (user) => user.post("{}", { ...POST.headers, "Content-Encoding": "gzip" }),
  "createPet 422 reused": async (user) => {
    await user.postOnce(REX, "order-4711");
    return user.postOnce(`{"name":"Mimi","categoryId":1}`, "order-4711");
  },
  "getPet 200 complete": (user) => user.get("/v1/pets/1"),
  "getPet 200 minimal": (user) => user.get("/v1/pets/3"),
  "getPet 404 pet": (user) => user.get("/v1/pets/999"),
  "getPet 410 removed": (user) => {
    vi.setSystemTime(Date.UTC(2030, 11, 5));
    return user.get("/v1/pets/1");
  },
  "getUsage 200 unused": async (user) => {
    await user.get("/v1/pets");
    return user.get("/v1/usage");
  },
  "otherRequests 403 readOnly": async () =>
    (await newClient({ plan: "free", access: "read" })).call("/v1/pets", { method: "DELETE" }),
  "otherRequests 404 path": async (user) => {
    // The next request is decided by a lease.
    for (let request = 0; request < 5; request += 1) await user.get("/v1/nowhere");
    return user.call("/v1/nowhere", { headers: { [HEADER.prefer]: PREFERENCE } });
  },
  "otherRequests 405 method": (user) => user.call("/v1/pets", { method: "DELETE" }),
  ...Object.assign({}, ...(Object.keys(DOCUMENTED) as DocumentedId[]).map(forAny)),
};

/** Provokes those of the responses that operations share which this operation can give. */
function forAny(id: DocumentedId): Record<string, Provocation> {
  const provocations: Record<string, Provocation> = {
    "400 plainHttp": () => fetchWithoutKey(...REQUESTS[id], "http://petstore.example"),
    "401 missing": () => request(id),
    "401 unknown": () => request(id, { Authorization: `Bearer ${newSecret(newKeyId())}` }),
    "429 minute": async (user) => {
      // Uses up the minute through another isolate.
      await acquire(user.id, batch(60));
      return request(id, {}, user.call);
    },
    "429 banned": async (user) => {
      // The ban is as old as in the example.
      pass(-BAN_GRACE_MS);
      await banKey(user.id);
      return request(id, {}, user.call);
    },
    "429 withoutKey": async () => {
      const address = newAddress();
      await exhaust(address);
      return request(id, { "CF-Connecting-IP": address });
    },
    "429 unknownKeys": async (user) => request(id, { "CF-Connecting-IP": await guess() }, user.call),
    // A fault of the code, because every fault of a database or of the object is a 503 where all operations need it.
    "500 fault": (user) => {
      vi.spyOn(KnownKeys.prototype, "peekCaller").mockImplementationOnce(() => {
        throw new Error("a fault");
      });
      return request(id, TRACED, user.call);
    },
    "503 database": (user) => {
      cutDatabasesOff();
      return request(id, TRACED, user.call);
    },
    "503 lookups": (user) => {
      vi.spyOn(LookupThrottle.prototype, "hasRoom").mockImplementation(() => {
        // Longer than a request waits for room.
        pass(2_000);
        return false;
      });
      return request(id, TRACED, user.call);
    },
  };
  const named = Object.entries(provocations).map(([each, provoke]) => [`${id} ${each}`, provoke] as const);
  return Object.fromEntries(named.filter(([each]) => EXAMPLES.some(({ name: example }) => example === each)));
}

/** An address that has sent as many unknown keys as one may in a minute: the same for all operations, because each key makes an object. */
async function guess(): Promise<string> {
  if (guesser !== undefined) return guesser;
  guesser = newAddress();
  const from = { "CF-Connecting-IP": guesser };
  for (let guesses = 0; guesses < REQUESTS_PER_MINUTE; guesses += 1)
    await request("otherRequests", { ...from, Authorization: `Bearer ${newSecret(newKeyId())}` });
  return guesser;
}
let guesser: string | undefined;

const answers = new Map<string, { status: number; headers: Headers; body: unknown }>();

/** Provokes a response with the pets of the examples, once. */
async function answerTo(example: string) {
  const provoke = PROVOCATIONS[example];
  if (provoke === undefined) throw new Error(`no provocation for ${example}`);
  let answer = answers.get(example);
  if (answer === undefined) {
    await resetPets();
    const response = await provoke(await newClient({ plan: "free" }));
    vi.restoreAllMocks();
    const text = await response.text();
    const body = text === "" ? undefined : JSON.parse(text);
    answer = { status: response.status, headers: response.headers, body };
    answers.set(example, answer);
  }
  return answer;
}

/** Leaves the three pets of the examples; the next one has the ID 4. */
async function resetPets(): Promise<void> {
  invalidatePageCache();
  await env.PETS_DB.exec("DELETE FROM pets");
  await env.PETS_DB.exec("DELETE FROM sqlite_sequence WHERE name = 'pets'");
  const { rex, mimi, goldie } = EXAMPLE_PETS;
  for (const pet of [rex, mimi, goldie]) {
    await insertPet(env.PETS_DB, { ...pet, categoryId: BigInt(pet.categoryId) });
  }
}

it.each(EXAMPLES)(
  "the example $name is what the service returns",
  async ({ name: example, status: number, value }) => {
    const answer = await answerTo(example);
    expect(answer.status).toBe(number);
    expect(answer.body).toEqual(value);
  },
);

it("the example of each parameter is accepted", async () => {
  for (const id of OPERATION_IDS) {
    const { parameters = [] }: Description = DOCUMENTED[id];
    const [path, init] = REQUESTS[id];
    for (const { name: wanted, in: where, example } of parameters) {
      await resetPets();
      const inPath = `/v1${OPERATIONS[id].path.replace(`{${wanted}}`, `${example}`)}`;
      const target = where === "query" ? `${inPath}?${wanted}=${example}` : where === "path" ? inPath : path;
      const headers = { ...init.headers, ...(where === "header" && { [wanted]: `${example}` }) };
      expect((await client.call(target, { ...init, headers })).ok, `${id} ${wanted}`).toBe(true);
    }
  }
});

it("the example of each header occurs in a response", async () => {
  const seen = new Set<string>();
  for (const example of Object.keys(PROVOCATIONS)) {
    for (const [name, value] of (await answerTo(example)).headers) seen.add(`${name}: ${value}`);
  }
  const documented = RESPONSES.flatMap(({ headers }) =>
    Object.entries(headers).map(([name, { example }]) => `${name.toLowerCase()}: ${example}`),
  );
  expect(documented.filter((each) => !seen.has(each))).toEqual([]);
});

/** Sends a request of an operation, by default without a key. */
function request(id: DocumentedId, headers: HeadersInit = {}, call: Client["call"] = fetchWithoutKey) {
  const [path, init] = REQUESTS[id];
  return call(path, { ...init, headers: { ...init.headers, ...headers } as HeadersInit });
}

function postOf(body: unknown): RequestInit {
  return { ...POST, body: JSON.stringify(body) };
}

/** Makes both databases unreachable until the end of the test. */
function cutDatabasesOff(): void {
  for (const name of ["PETS_DB", "KEYS_DB"] as const) {
    interceptStatements(name, () => Promise.reject(new Error("D1_ERROR: Network connection lost.")));
  }
}
