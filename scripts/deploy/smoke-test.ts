// The smoke test: the first requests of a client. It creates a pet only if `create` is set, because no client can delete one,
// and costs its key a dozen requests. It uses the public interface alone, so it tests a laptop, a preview and production alike.

import assert from "node:assert/strict";
import { setTimeout as wait } from "node:timers/promises";
import { InvalidArgumentError } from "@commander-js/extra-typings";
import { INTERFACE_VERSION } from "../../src/http/version.ts";
import { type Io, messageOf } from "../lib/command.ts";

export interface SmokeOptions {
  /** The service's URL, without /v1. */
  origin: string;
  key: string;
  /** The build that must respond. After a deployment the previous one may still respond, so the test waits. */
  build?: string | undefined;
  /** The build that must not respond any more, after a rollback. The test waits too. */
  notBuild?: string | undefined;
  /** How long it waits; 90 s by default: a deployment is everywhere within seconds, a new address can take longer. */
  timeoutMs?: number | undefined;
  create: boolean;
}

interface Answer {
  headers: Headers;
  text: string;
}

/** A request and what its response must be: its status, its error code, and a part of its body. */
type Check = [path: string, status: number, request?: RequestInit & { code?: string; contains?: string }];

/** Sends a request, with the key. Throws if the response is another one. */
type Send = (...check: Check) => Promise<Answer>;

type Step = (send: Send, options: SmokeOptions) => Promise<unknown>;

const DEADLINE_MS = 10_000;
const BUILD_TIMEOUT_MS = 90_000;
const POLL_MS = 1_000;
const REQUIRED_IN_A_ROW = 3;

/** The largest int64, which a double can't represent. */
const LARGEST = "9223372036854775807";

const JSON_CONTENT = { "Content-Type": "application/json" };

const STEPS: Record<string, Step> = {
  "reports its build": (send, options) =>
    isBuildExpected(options) ? waitForBuild(send, options) : checkVersion(send, options),
  "serves the document and the pages": inOrder(
    ["/openapi.json", 200, { contains: `"version": "${INTERFACE_VERSION}"` }],
    ["/", 200, { contains: "<!doctype html>" }],
    ["/usage", 200, { contains: "<!doctype html>" }],
  ),
  "rejects a request without a key": inOrder([
    "/v1/pets",
    401,
    { code: "unauthorized", headers: { Authorization: "" } },
  ]),
  "lists pets in pages": async (send) => {
    const answer = await send("/v1/pets?limit=2", 200);
    const pets: unknown = parse(answer);
    const isPage = Array.isArray(pets) && pets.length <= 2;
    assert(isPage, "GET /v1/pets?limit=2 did not return an array of at most 2");
    const [, next] = answer.headers.get("Link")?.match(/<https?:\/\/[^/]+([^>]+)>; rel="next"/) ?? [];
    if (next !== undefined) await send(next, 200);
  },
  "rejects invalid requests": inOrder(
    ["/v1/pets?limit=0", 400, { code: "invalid_request" }],
    ["/v1/pets/9e9", 404, { code: "not_found" }],
    ["/v1/nowhere", 404, { code: "not_found" }],
    ["/v1/pets", 405, { code: "method_not_allowed", method: "DELETE" }],
    [
      "/v1/pets",
      400,
      { code: "invalid_request", method: "POST", body: '{"name":""}', headers: JSON_CONTENT },
    ],
    ["/v1/pets", 415, { code: "unsupported_media_type", method: "POST", body: "name=Rex" }],
  ),
  "counts a request in the key's usage": async (send) => {
    // The earlier requests may have left a lease, which counts as used and is released within a second.
    await wait(POLL_MS);
    const before = await readToday(send);
    await send("/v1/pets?limit=1", 200);
    // An isolate may return usage that is up to a second old, and each poll may reach another isolate.
    for (let polls = 0; polls < 5; polls += 1) {
      const { date, admitted } = await readToday(send);
      // At midnight, a new day begins.
      if (date > before.date || admitted > before.admitted) return;
      await wait(POLL_MS);
    }
    assert.fail("GET /v1/usage does not count an admitted request");
  },
};

const CREATE_STEP: Record<string, Step> = {
  "creates a pet once, with exact integers": async (send) => {
    const id = crypto.randomUUID();
    const body = `{"name":"Smoke ${id}","categoryId":${LARGEST},"status":"pending"}`;
    const request = { method: "POST", body, headers: { ...JSON_CONTENT, "Idempotency-Key": id } };
    const created = await send("/v1/pets", 201, { ...request, contains: `"categoryId":${LARGEST}` });
    await send("/v1/pets", 201, { ...request, contains: created.text });
    await send(created.headers.get("Location") ?? "/v1/pets/none", 200, { contains: created.text });
  },
};

/** Otherwise an earlier step may have tested another build. */
const LAST_STEP: Record<string, Step> = { "still reports that build": checkVersion };

function inOrder(...checks: Check[]): Step {
  return async (send) => {
    for (const check of checks) await send(...check);
  };
}

/** Parses a service's URL, with or without /v1. Returns its origin. */
export function readOrigin(text: string): string {
  const url = URL.parse(text);
  if (url && /^https?:$/.test(url.protocol) && /^(\/v1)?\/?$/.test(url.pathname)) return url.origin;
  throw new InvalidArgumentError("It must be the URL of a service, such as https://petstore.example");
}

/** Runs the smoke test. Throws at the first step that fails. */
export async function smokeTest(io: Pick<Io, "note" | "step">, options: SmokeOptions): Promise<void> {
  const send = sender(options);
  const steps = { ...STEPS, ...(options.create && CREATE_STEP), ...(isBuildExpected(options) && LAST_STEP) };
  io.note(`Smoke test of ${options.origin}`);
  for (const [name, run] of Object.entries(steps)) {
    const testing = io.step(`  ${name}`, () => run(send, options));
    await testing.catch((error) => {
      throw new Error(`smoke test failed: step "${name}": ${messageOf(error)}`);
    });
  }
}

function isBuildExpected({ build, notBuild }: SmokeOptions): boolean {
  return build !== undefined || notBuild !== undefined;
}

async function checkVersion(send: Send, { build, notBuild }: SmokeOptions): Promise<void> {
  const { interface: version, build: found } = parse(await send("/version", 200));
  assert(version === INTERFACE_VERSION, `the interface version is ${version}, expected ${INTERFACE_VERSION}`);
  assert(build === undefined || found === build, `the build is ${found}, expected ${build}`);
  assert(notBuild === undefined || found !== notBuild, `${notBuild} still responds`);
}

/** Waits until the expected build has responded several times in a row, because a deployment spreads. */
async function waitForBuild(send: Send, options: SmokeOptions): Promise<void> {
  const untilMs = Date.now() + (options.timeoutMs ?? BUILD_TIMEOUT_MS);
  for (let inRow = 0; ; await wait(POLL_MS)) {
    try {
      await checkVersion(send, options);
      inRow += 1;
      if (inRow === REQUIRED_IN_A_ROW) return;
    } catch (error) {
      // A new address does not resolve at first.
      if (Date.now() >= untilMs) throw error;
      inRow = 0;
    }
  }
}

async function readToday(send: Send): Promise<{ date: string; admitted: number }> {
  const { days } = parse(await send("/v1/usage", 200)) as { days?: Awaited<ReturnType<typeof readToday>>[] };
  return days?.at(-1) ?? { date: "", admitted: 0 };
}

/** Sends again if there was no response, because one lost connection is not the service's fault. */
function sender({ origin, key }: SmokeOptions): Send {
  const sendOnce = async (path: string, init: RequestInit = {}) => {
    const headers = { Authorization: `Bearer ${key}`, ...init.headers };
    const signal = AbortSignal.timeout(DEADLINE_MS);
    const response = await fetch(origin + path, { ...init, headers, signal, redirect: "manual" });
    return { status: response.status, headers: response.headers, text: await response.text() };
  };
  return async (path, status, { code, contains = "", ...init } = {}) => {
    const again = () => sendOnce(path, init);
    const sending = again().catch(again);
    const answer = await sending.catch((error: Error) => {
      // Node's fetch says why only in the cause.
      throw new Error(`can't reach ${origin}: ${messageOf(error.cause ?? error)}`);
    });
    const { headers, text } = answer;
    const shown = ["X-Request-Id", "Location"].filter((name) => headers.has(name));
    const details = shown.map((name) => `, ${name} ${headers.get(name)}`).join("");
    const start = text.split("\n")[0]?.slice(0, 200);
    const found = `${init.method ?? "GET"} ${path} returned ${answer.status}${details}: ${start}; expected`;
    assert(answer.status === status, `${found} ${status}`);
    assert(text.includes(contains), `${found} ${contains}`);
    if (code === undefined) return answer;
    const error = parse(answer);
    assert(error.code === code && error.status === status, `${found} the error ${code}`);
    const required = ["X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "X-Request-Id"];
    if (status === 401) required.push("WWW-Authenticate");
    for (const name of required) assert(headers.has(name), `${found} the header ${name}`);
    return answer;
  };
}

/** The JSON object or array of a response. */
function parse({ text }: Answer): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // Such as an HTML page of another server.
  }
  assert(typeof value === "object" && value !== null, `the response is ${JSON.stringify(text.slice(0, 80))}`);
  return value as Record<string, unknown>;
}
