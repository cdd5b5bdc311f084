// The smoke test: the first requests of a client. It writes only if `create` is set, because the pets of production are customers' pets,
// and costs its key a dozen requests. It uses the public interface alone, so it tests a laptop, a preview and production alike.

import assert from "node:assert/strict";
import { setTimeout as wait } from "node:timers/promises";
import { InvalidArgumentError } from "commander";
import { type Pet, Petstore, stringify } from "../../client/src/index.ts";
import { HEADER } from "../../src/http/header-names.ts";
import { OPERATIONS, type OperationId } from "../../src/http/operations.ts";
import { INTERFACE_VERSION } from "../../src/http/version.ts";
import { ALWAYS } from "../../src/openapi/headers.ts";
import { type Io, messageOf } from "../lib/io.ts";

interface SmokeOptions {
  /** The service's URL, without /v1. */
  origin: string;
  key: string;
  create: boolean;
  /** Selects the builds to test; by default any. After a deployment the previous build may still respond, so the test waits. */
  isExpected?: (build: string) => boolean;
}

/** Sends a request, with the key. Throws unless the response has this status, or any of success, and this part of a body. */
type Send = (
  path: string,
  status: number | "success",
  contains?: string,
  request?: RequestInit,
) => Promise<Response>;

type Step = [
  name: string,
  work: (send: Send, context: SmokeOptions & { client: Petstore }) => Promise<unknown>,
];

const DEADLINE_MS = 10_000;
/** A deployment is everywhere within seconds; a new address can take longer. */
const BUILD_TIMEOUT_MS = 90_000;
const POLL_MS = 1_000;
const REQUIRED_IN_A_ROW = 3;

/** The largest int64, which a double can't represent. */
const LARGEST = 9_223_372_036_854_775_807n;

const JSON_CONTENT = { "Content-Type": "application/json" };

/** A step of each operation. Those of operations that write run only if `create` is set. */
const OPERATION_STEPS: Record<OperationId, Step> = {
  listPets: [
    "lists pets in pages",
    async (_, { client }) => {
      const { pets, next } = await client.pets.list({ limit: 2 });
      assert(pets.length <= 2, `GET /v1/pets?limit=2 returned ${pets.length} pets`);
      if (next !== undefined) await client.pets.list(next);
    },
  ],
  getPet: [
    "gets a listed pet",
    async (send, { client }) => {
      const [pet] = (await client.pets.list({ limit: 1 })).pets;
      if (pet !== undefined) await send(`/v1/pets/${pet.id}`, 200, stringify(pet));
    },
  ],
  getUsage: [
    "counts a request in the key's usage",
    async (_, { client }) => {
      const today = async () =>
        (await client.usage()).days.at(-1) ?? assert.fail("GET /v1/usage has no days");
      // The earlier requests may have left a lease, which counts as used and is released within a second.
      await wait(POLL_MS);
      const before = await today();
      await client.pets.list({ limit: 1 });
      // An isolate may return usage that is up to a second old, and each poll may reach another isolate.
      await poll(5 * POLL_MS, async () => {
        const { date, admitted } = await today();
        // At midnight, a new day begins.
        const isCounted = date > before.date || admitted > before.admitted;
        assert(isCounted, "GET /v1/usage does not count an admitted request");
      });
    },
  ],
  createPet: [
    "creates a pet once, with exact integers",
    async (send, { client }) => {
      const idempotencyKey = crypto.randomUUID();
      const sent = { name: `Smoke ${idempotencyKey}`, categoryId: LARGEST, status: "pending" } as const;
      const create = async (expected?: Pet) => {
        const { data, response } = await client.pets.create(sent, { idempotencyKey }).withResponse();
        const pet = stringify(expected ?? { id: data.id, ...sent });
        const found = `${response.status} ${stringify(data)}`;
        assert(found === `201 ${pet}`, `POST /v1/pets returned ${found}; expected 201 ${pet}`);
        return { pet: data, response };
      };
      const { pet } = await create();
      const { response } = await create(pet);
      assert(response.headers.has(HEADER.idempotentReplayed), "a repeated creation does not say so");
      await send(response.headers.get("Location") ?? "/v1/pets/none", 200, stringify(pet));
    },
  ],
};

export const stepsOf = (create: boolean): Step[] => [
  ["reports its build", waitForBuild],
  [
    "serves the document and the pages",
    async (send) => {
      await send("/openapi.json", 200, `"version": "${INTERFACE_VERSION}"`);
      for (const page of ["/", "/usage"]) await send(page, 200, "<!doctype html>");
    },
  ],
  [
    "rejects a request without a key",
    (send) => send("/v1/pets", 401, "unauthorized", { headers: { Authorization: "" } }),
  ],
  [
    "rejects invalid requests",
    async (send) => {
      await send("/v1/pets?limit=0", 400, "invalid_request");
      for (const path of ["/v1/pets/9e9", "/v1/nowhere"]) await send(path, 404, "not_found");
      await send("/v1/pets", 405, "method_not_allowed", { method: "DELETE" });
      const wrong = { method: "POST", body: '{"name":""}' };
      await send("/v1/pets", 400, "invalid_request", { ...wrong, headers: JSON_CONTENT });
      await send("/v1/pets", 415, "unsupported_media_type", wrong);
    },
  ],
  ...Object.entries(OPERATION_STEPS)
    .filter(([id]) => create || OPERATIONS[id as OperationId].method === "get")
    .map(([, step]) => step),
  // Otherwise an earlier step may have tested another build.
  ["still reports that build", checkBuild],
];

/** Parses a service's URL, with or without /v1. Returns its origin. */
export function readOrigin(text: string): string {
  const url = URL.parse(text);
  if (url && /^https?:$/.test(url.protocol) && /^(\/v1)?\/?$/.test(url.pathname)) return url.origin;
  throw new InvalidArgumentError("It must be the URL of a service, such as https://petstore.example");
}

/** Runs the smoke test. Throws at the first step that fails. */
export async function smokeTest(io: Pick<Io, "note" | "step">, options: SmokeOptions): Promise<void> {
  io.note(`Smoke test of ${options.origin}`);
  const { origin, key } = options;
  const send = sender(options);
  const client = new Petstore({
    apiKey: key,
    baseURL: origin,
    fetch: (url, init) => send(`${url}`.slice(origin.length), "success", "", init),
    // They would hide errors. `send` repeats lost connections.
    maxRetries: 0,
    timeoutMs: Infinity,
  });
  for (const [name, work] of stepsOf(options.create)) {
    await io
      .step(`  ${name}`, () => work(send, { ...options, client }))
      .catch((error) => {
        // The client calls a wrong response a lost one.
        const reason = error.cause instanceof assert.AssertionError ? error.cause : error;
        throw new Error(`smoke test failed: step "${name}": ${messageOf(reason)}`);
      });
  }
}

/** Waits until an expected build has responded several times in a row, because a deployment spreads. */
async function waitForBuild(send: Send, options: SmokeOptions): Promise<void> {
  if (options.isExpected === undefined) return checkBuild(send, options);
  await poll(BUILD_TIMEOUT_MS, async () => {
    for (let inRow = 0; inRow < REQUIRED_IN_A_ROW; inRow += 1) {
      if (inRow > 0) await wait(POLL_MS);
      await checkBuild(send, options);
    }
  });
}

async function checkBuild(send: Send, { isExpected = () => true }: SmokeOptions): Promise<void> {
  const response = await send("/version", 200, `"interface":"${INTERFACE_VERSION}"`);
  const { build } = (await response.json()) as { build: string };
  assert(isExpected(build), `build ${build} responds, which is not the expected one`);
}

/** Repeats a check until it passes. After `timeoutMs`, its error is thrown. */
async function poll(timeoutMs: number, check: () => Promise<void>): Promise<void> {
  const untilMs = Date.now() + timeoutMs;
  for (;;) {
    try {
      return await check();
    } catch (error) {
      if (Date.now() >= untilMs) throw error;
      await wait(POLL_MS);
    }
  }
}

function sender({ origin, key }: SmokeOptions): Send {
  return async (path, status, contains = "", request = {}) => {
    const attempt = async () => {
      const headers = new Headers(request.headers);
      if (!headers.has("Authorization")) headers.set("Authorization", `Bearer ${key}`);
      const signal = AbortSignal.timeout(DEADLINE_MS);
      const response = await fetch(origin + path, { ...request, headers, signal, redirect: "manual" });
      return { found: response.status, headers: response.headers, text: await response.text() };
    };
    // Once more if there was no response, because one lost connection is not the service's fault.
    const { found, headers, text } = await attempt()
      .catch(attempt)
      .catch((error: Error) => {
        // Node's fetch says why only in the cause.
        assert.fail(`can't reach ${origin}: ${messageOf(error.cause ?? error)}`);
      });
    const shown = [HEADER.requestId, "Location"].filter((name) => headers.has(name));
    const details = shown.map((name) => `, ${name} ${headers.get(name)}`).join("");
    const start = text.split("\n")[0]?.slice(0, 200);
    const problem = `${request.method ?? "GET"} ${path} returned ${found}${details}: ${start}; expected`;
    assert(found === status || (status === "success" && found >= 200 && found < 300), `${problem} ${status}`);
    assert(text.includes(contains), `${problem} ${contains}`);
    const required = path.startsWith("/v1") ? ALWAYS : [];
    for (const name of required) assert(headers.has(name), `${problem} the header ${name}`);
    // A 204 must have no body, not even an empty one.
    return new Response(text || null, { status: found, headers });
  };
}
