// The smoke test: the first requests of a client. It creates a pet only if `create` is set, because no client can delete one,
// and costs its key a dozen requests. It uses the public interface alone, so it tests a laptop, a preview and production alike.

import assert from "node:assert/strict";
import { setTimeout as wait } from "node:timers/promises";
import { INTERFACE_VERSION } from "../../src/http/version.ts";
import { messageOf, UsageError } from "../lib/command.ts";
import type { Log } from "./deployment.ts";

export interface SmokeOptions {
  /** The service's URL, without /v1. */
  origin: string;
  key: string;
  /** The build that must respond. After a deployment the previous one may still respond, so the test waits. */
  build?: string | undefined;
  /** The build that must not respond any more, after a rollback. The test waits too. */
  notBuild?: string | undefined;
  /** How long it waits; 90 s by default. */
  timeoutMs?: number | undefined;
  create: boolean;
  log: Log;
}

interface Answer {
  status: number;
  headers: Headers;
  text: string;
}

/** Sends a request to the service. Throws if there is no response. */
type Send = (path: string, init?: RequestInit) => Promise<Answer>;

interface Step {
  name: string;
  run(send: Send, options: SmokeOptions): Promise<void>;
}

const DEADLINE_MS = 10_000;

/** A deployment is everywhere within seconds; a new address can take longer. */
const BUILD_TIMEOUT_MS = 90_000;
const POLL_MS = 1_000;
const REQUIRED_IN_A_ROW = 3;

/** The largest int64, which a double can't represent. */
const LARGEST = "9223372036854775807";

const JSON_CONTENT = { "Content-Type": "application/json" };

const STEPS: Step[] = [
  { name: "reports its build", run: reportsBuild },
  { name: "serves the document and the pages", run: servesDocumentAndPages },
  { name: "rejects a request without a key", run: rejectsWithoutKey },
  { name: "lists pets in pages", run: listsPets },
  { name: "rejects invalid requests", run: rejectsInvalidRequests },
  { name: "counts a request in the key's usage", run: countsRequests },
];

const CREATE: Step = { name: "creates a pet once, with exact integers", run: createsPet };

/** Otherwise an earlier step may have tested another build. */
const LAST: Step = {
  name: "still reports that build",
  run: async (send, options) => expectBuild(await send("/version"), options),
};

/** The origin of a service's URL, with or without /v1. */
export function readOrigin(text: string): string {
  const url = URL.parse(text);
  if (url === null || !/^https?:$/.test(url.protocol) || !/^(\/v1)?\/?$/.test(url.pathname)) {
    throw new UsageError(`${text} is not the URL of a service, such as https://petstore.example`);
  }
  return url.origin;
}

/** Runs the smoke test. Throws at the first step that fails. */
export async function smokeTest(options: SmokeOptions): Promise<void> {
  const send = sender(options);
  const steps = [...STEPS, ...(options.create ? [CREATE] : []), ...(isBuildExpected(options) ? [LAST] : [])];
  for (const { name, run } of steps) {
    try {
      await run(send, options);
    } catch (error) {
      throw new Error(`step "${name}": ${messageOf(error)}`);
    }
    options.log(`  ok: ${name}`);
  }
}

async function reportsBuild(send: Send, options: SmokeOptions): Promise<void> {
  const answer = await (isBuildExpected(options) ? waitForBuild(send, options) : send("/version"));
  expectStatus(answer, 200, "GET /version");
  const { interface: version } = parse(answer);
  assert(version === INTERFACE_VERSION, `the interface version is ${version}, expected ${INTERFACE_VERSION}`);
  expectBuild(answer, options);
}

function isBuildExpected({ build, notBuild }: SmokeOptions): boolean {
  return build !== undefined || notBuild !== undefined;
}

/**
 * Waits until the expected build has responded several times in a row, because a deployment spreads. Returns the last response,
 * which at the deadline is another one.
 */
async function waitForBuild(send: Send, options: SmokeOptions): Promise<Answer> {
  const { build, log, timeoutMs = BUILD_TIMEOUT_MS } = options;
  const untilMs = Date.now() + timeoutMs;
  for (let polls = 0, inRow = 0; ; polls += 1) {
    // A new address does not resolve at first.
    const answer = await send("/version").catch((error: Error) => error);
    inRow = isExpected(answer, options) ? inRow + 1 : 0;
    if (inRow === REQUIRED_IN_A_ROW || (inRow === 0 && Date.now() >= untilMs)) {
      if (answer instanceof Error) throw answer;
      return answer;
    }
    if (inRow === 0 && polls === 0) log(`  waiting for ${build ?? "the previous version"}`);
    await wait(POLL_MS);
  }
}

function isExpected(answer: Answer | Error, options: SmokeOptions): boolean {
  try {
    if (answer instanceof Error || answer.status !== 200) return false;
    expectBuild(answer, options);
    return true;
  } catch {
    return false;
  }
}

function expectBuild(answer: Answer, { build, notBuild }: SmokeOptions): void {
  const found = parse(answer).build;
  assert(build === undefined || found === build, `the build is ${found}, expected ${build}`);
  assert(notBuild === undefined || found !== notBuild, `${notBuild} still responds`);
}

async function servesDocumentAndPages(send: Send): Promise<void> {
  const document = await send("/openapi.json");
  expectStatus(document, 200, "GET /openapi.json");
  const { info } = parse(document) as { info?: { version?: string } };
  assert(
    info?.version === INTERFACE_VERSION,
    `/openapi.json has version ${info?.version}, expected ${INTERFACE_VERSION}`,
  );
  for (const page of ["/", "/usage"]) {
    const answer = await send(page);
    expectStatus(answer, 200, `GET ${page}`);
    assert(answer.text.startsWith("<!doctype html>"), `GET ${page} did not return HTML`);
  }
}

async function rejectsWithoutKey(send: Send): Promise<void> {
  const answer = await send("/v1/pets", { headers: { Authorization: "" } });
  expectError(answer, 401, "unauthorized", "GET /v1/pets without a key");
  assert(answer.headers.get("WWW-Authenticate")?.startsWith("Bearer "), "the 401 has no WWW-Authenticate");
}

async function listsPets(send: Send): Promise<void> {
  const answer = await send("/v1/pets?limit=2");
  expectStatus(answer, 200, "GET /v1/pets?limit=2");
  const pets = parse(answer) as unknown;
  assert(
    Array.isArray(pets) && pets.length <= 2,
    "GET /v1/pets?limit=2 did not return an array of at most 2",
  );
  const next = answer.headers.get("Link")?.match(/<([^>]+)>; rel="next"/)?.[1];
  if (next === undefined) return;
  const { pathname, search } = new URL(next);
  expectStatus(await send(pathname + search), 200, "the next page");
}

async function rejectsInvalidRequests(send: Send): Promise<void> {
  const post = (body: string, headers: Record<string, string>) =>
    send("/v1/pets", { method: "POST", body, headers });
  const text = { "Content-Type": "text/plain" };
  expectError(await send("/v1/pets?limit=0"), 400, "invalid_request", "limit=0");
  expectError(await send("/v1/pets/9e9"), 404, "not_found", "an invalid id");
  expectError(await send("/v1/nowhere"), 404, "not_found", "an unknown path");
  expectError(await send("/v1/pets", { method: "DELETE" }), 405, "method_not_allowed", "DELETE");
  expectError(await post(`{"name":""}`, JSON_CONTENT), 400, "invalid_request", "a pet without a name");
  expectError(await post("name=Rex", text), 415, "unsupported_media_type", "a pet as text");
}

async function countsRequests(send: Send): Promise<void> {
  // The earlier requests may have left a lease, which counts as used and is released within a second.
  await wait(POLL_MS);
  const before = await readDays(send);
  const today = before.at(-1)?.date ?? "";
  const admitted = (days: Day[]) =>
    days.filter(({ date }) => date >= today).reduce((total, day) => total + day.admitted, 0);
  expectStatus(await send("/v1/pets?limit=1"), 200, "GET /v1/pets?limit=1");
  // An isolate may return usage that is up to a second old, and each poll may reach another isolate.
  for (let polls = 0; polls < 5; polls += 1) {
    if (admitted(await readDays(send)) > admitted(before)) return;
    await wait(POLL_MS);
  }
  assert.fail("GET /v1/usage does not count an admitted request");
}

async function createsPet(send: Send): Promise<void> {
  const name = `Smoke ${crypto.randomUUID()}`;
  const body = `{"name":"${name}","categoryId":${LARGEST},"status":"pending"}`;
  const headers = { ...JSON_CONTENT, "Idempotency-Key": name.replace(" ", "-") };
  const created = await send("/v1/pets", { method: "POST", body, headers });
  expectStatus(created, 201, "POST /v1/pets");
  assert(created.text.includes(`"categoryId":${LARGEST}`), `the pet was returned as ${created.text}`);
  const repeated = await send("/v1/pets", { method: "POST", body, headers });
  assert(
    repeated.status === 201 && repeated.text === created.text,
    "the same POST with the same Idempotency-Key got another response",
  );
  const found = await send(created.headers.get("Location") ?? "/v1/pets/none");
  expectStatus(found, 200, "the pet's Location");
  assert(found.text === created.text, `the pet at its Location is ${found.text}`);
}

interface Day {
  date: string;
  admitted: number;
}

async function readDays(send: Send): Promise<Day[]> {
  const answer = await send("/v1/usage");
  expectStatus(answer, 200, "GET /v1/usage");
  const { days } = parse(answer) as { days?: Day[] };
  return days ?? [];
}

/** Sends again if there was no response, because one lost connection is not the service's fault. */
function sender({ origin, key }: SmokeOptions): Send {
  const sendOnce = async (path: string, init: RequestInit = {}) => {
    const headers = { Authorization: `Bearer ${key}`, ...init.headers };
    const signal = AbortSignal.timeout(DEADLINE_MS);
    const response = await fetch(origin + path, { ...init, headers, signal, redirect: "manual" });
    return { status: response.status, headers: response.headers, text: await response.text() };
  };
  return async (path, init) => {
    try {
      return await sendOnce(path, init).catch(() => sendOnce(path, init));
    } catch (error) {
      // Node's fetch says why only in the cause.
      const reason = error instanceof Error && error.cause !== undefined ? error.cause : error;
      throw new Error(`can't reach ${origin}: ${messageOf(reason)}`);
    }
  };
}

function expectStatus({ status: found, headers, text }: Answer, status: number, what: string): void {
  const details = [
    [", request ID ", headers.get("X-Request-Id")],
    [", Location ", headers.get("Location")],
    [": ", text.split("\n")[0]?.slice(0, 200)],
  ].map(([label, value]) => (value ? `${label}${value}` : ""));
  assert(found === status, `${what} returned ${found}, expected ${status}${details.join("")}`);
}

/** Expects an error body of the service, with the headers that every response under /v1 has. */
function expectError(answer: Answer, status: number, code: string, what: string): void {
  expectStatus(answer, status, what);
  const body = parse(answer);
  assert(body.code === code && body.status === status, `${what} returned ${answer.text.slice(0, 200)}`);
  for (const name of ["X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "X-Request-Id"]) {
    assert(answer.headers.has(name), `the response to ${what} has no ${name}`);
  }
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
