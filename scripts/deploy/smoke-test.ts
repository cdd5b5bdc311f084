// The smoke test: a client's first requests to a service that was just deployed, each with what has to come back. It changes
// nothing unless it is told to add a pet, because a client can't remove one, and it uses up a dozen requests of its key. It
// knows the service by its interface alone, so it says the same of a laptop, a preview and production.

import { INTERFACE_VERSION } from "../../src/http/version.ts";
import { UsageError } from "../lib/command.ts";

export interface SmokeOptions {
  /** Where the service is, without /v1. */
  origin: string;
  /** A valid key. */
  key: string;
  /** The build that has to answer. Right after a deployment the one before may still answer: it is waited for. */
  build?: string | undefined;
  /** The build that must not answer any more: the one that was taken back. */
  otherThan?: string | undefined;
  /** How long either is waited for; 90 s if left out. */
  buildWithinMs?: number | undefined;
  /** Whether a pet is added, too. */
  create: boolean;
  /** Takes what is to be told, a line for each step. */
  say(line: string): void;
}

/** What a service did not do as it should. */
export class SmokeFailure extends Error {}

interface Answer {
  status: number;
  headers: Headers;
  text: string;
}

/** Where a service is, whatever of its address was given: npm start prints it with /v1. */
export function readOrigin(address: string): string {
  const url = URL.parse(address);
  if (url === null || !/^https?:$/.test(url.protocol) || !/^(\/v1)?\/?$/.test(url.pathname)) {
    throw new UsageError(
      `${address} is no address of the service: it should look like https://petstore.example`,
    );
  }
  return url.origin;
}

/** Asks the service. Throws SmokeFailure if it gives no answer. */
type Ask = (path: string, init?: RequestInit) => Promise<Answer>;

interface Step {
  /** What the service does. */
  does: string;
  run(ask: Ask, options: SmokeOptions): Promise<void>;
}

const DEADLINE_MS = 10_000;

/** How long a build is waited for, and how often it is looked for. A deployment is everywhere within seconds, a first one later. */
const BUILD_WITHIN_MS = 90_000;
const LOOK_MS = 1_000;
const LOOKS_IN_ROW = 3;

/** The largest int64: whatever rounds integers changes its digits. */
const LARGEST = "9223372036854775807";

const JSON_CONTENT = { "Content-Type": "application/json" };

const STEPS: Step[] = [
  { does: "says which build it is", run: saysBuild },
  { does: "publishes its document and its pages", run: publishes },
  { does: "refuses who has no key", run: refusesWithoutKey },
  { does: "lists pets, page by page", run: listsPets },
  { does: "tells what is wrong with a request", run: tellsWhatIsWrong },
  { does: "counts what it admits, and tells how the key stands", run: counts },
];

const CREATION: Step = { does: "adds a pet once, to the last digit", run: addsPet };

const LAST: Step = { does: "is still that build", run: isStillThatBuild };

/** Runs the smoke test. Throws SmokeFailure at the first step that fails. */
export async function smokeTest(options: SmokeOptions): Promise<void> {
  const steps = [...STEPS, ...(options.create ? [CREATION] : []), ...(expects(options) ? [LAST] : [])];
  for (const { does, run } of steps) {
    try {
      await run(askWith(options), options);
    } catch (error) {
      if (!(error instanceof SmokeFailure)) throw error;
      throw new SmokeFailure(`at the step "it ${does}": ${error.message}`);
    }
    options.say(`  it ${does}`);
  }
}

async function saysBuild(ask: Ask, options: SmokeOptions): Promise<void> {
  const answer = await (expects(options) ? waitForBuild(ask, options) : ask("/version"));
  mustBe(answer, 200, "GET /version");
  must(
    parsed(answer).interface === INTERFACE_VERSION,
    `it has version ${parsed(answer).interface} of the interface`,
  );
  mustBeBuild(answer, options);
}

/** Whether it matters which build answers. */
function expects({ build, otherThan }: SmokeOptions): boolean {
  return build !== undefined || otherThan !== undefined;
}

/**
 * The answer of the build that is expected, given several times in a row because a deployment spreads, or after a while what is
 * answered instead. A new address is unknown at first.
 */
async function waitForBuild(ask: Ask, options: SmokeOptions): Promise<Answer> {
  const { build, say, buildWithinMs = BUILD_WITHIN_MS } = options;
  const untilMs = Date.now() + buildWithinMs;
  for (let looks = 0, inRow = 0; ; looks += 1) {
    const answer = await ask("/version").catch((error: Error) => error);
    inRow = isExpected(answer, options) ? inRow + 1 : 0;
    if (inRow === LOOKS_IN_ROW || (inRow === 0 && Date.now() >= untilMs)) {
      if (answer instanceof Error) throw answer;
      return answer;
    }
    if (inRow === 0 && looks === 0) say(`  waiting until ${build ?? "the other version"} answers`);
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
}

function isExpected(answer: Answer | Error, options: SmokeOptions): boolean {
  try {
    if (answer instanceof Error || answer.status !== 200) return false;
    mustBeBuild(answer, options);
    return true;
  } catch {
    return false;
  }
}

function mustBeBuild(answer: Answer, { build, otherThan }: SmokeOptions): void {
  const found = parsed(answer).build;
  must(build === undefined || found === build, `what answers is ${found}, not ${build}`);
  must(otherThan === undefined || found !== otherThan, `${otherThan} still answers`);
}

/** Whoever answered meanwhile: nothing of what was seen is of another build if the last one is not. */
async function isStillThatBuild(ask: Ask, options: SmokeOptions): Promise<void> {
  mustBeBuild(await ask("/version"), options);
}

async function publishes(ask: Ask): Promise<void> {
  const document = await ask("/openapi.json");
  mustBe(document, 200, "GET /openapi.json");
  const { info } = parsed(document) as { info?: { version?: string } };
  must(info?.version === INTERFACE_VERSION, `the document is that of version ${info?.version}`);
  for (const page of ["/", "/usage"]) {
    const answer = await ask(page);
    mustBe(answer, 200, `GET ${page}`);
    must(answer.text.startsWith("<!doctype html>"), `GET ${page} is no page`);
  }
}

async function refusesWithoutKey(ask: Ask): Promise<void> {
  const answer = await ask("/v1/pets", { headers: { Authorization: "" } });
  mustBeError(answer, 401, "unauthorized", "GET /v1/pets without a key");
  must(
    answer.headers.get("WWW-Authenticate")?.startsWith("Bearer ") === true,
    "it does not say how to send one",
  );
}

async function listsPets(ask: Ask): Promise<void> {
  const answer = await ask("/v1/pets?limit=2");
  mustBe(answer, 200, "GET /v1/pets?limit=2");
  const pets = parsed(answer) as unknown;
  must(Array.isArray(pets) && pets.length <= 2, "GET /v1/pets?limit=2 gives no array of at most two");
  const next = answer.headers.get("Link")?.match(/<([^>]+)>; rel="next"/)?.[1];
  if (next === undefined) return;
  const { pathname, search } = new URL(next);
  mustBe(await ask(pathname + search), 200, "the next page");
}

async function tellsWhatIsWrong(ask: Ask): Promise<void> {
  const post = (body: string, headers: Record<string, string>) =>
    ask("/v1/pets", { method: "POST", body, headers });
  mustBeError(await ask("/v1/pets?limit=0"), 400, "invalid_request", "a limit of 0");
  mustBeError(await ask("/v1/pets/9e9"), 404, "not_found", "a pet that is none");
  mustBeError(await ask("/v1/nowhere"), 404, "not_found", "an unknown path");
  mustBeError(await ask("/v1/pets", { method: "DELETE" }), 405, "method_not_allowed", "DELETE");
  mustBeError(await post(`{"name":""}`, JSON_CONTENT), 400, "invalid_request", "a pet without a name");
  mustBeError(
    await post("name=Rex", { "Content-Type": "text/plain" }),
    415,
    "unsupported_media_type",
    "a pet as text",
  );
}

async function counts(ask: Ask): Promise<void> {
  // What an isolate has leased for quick requests like those before counts as used, and comes back within a second.
  await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  const before = await usage(ask);
  const today = before.at(-1)?.date ?? "";
  const admitted = (days: Day[]) => sum(days.filter(({ date }) => date >= today).map((day) => day.admitted));
  mustBe(await ask("/v1/pets?limit=1"), 200, "GET /v1/pets?limit=1");
  // An isolate tells for a second what it was told; with more than one, another may be asked.
  for (let looks = 0; looks < 5; looks += 1) {
    if (admitted(await usage(ask)) > admitted(before)) return;
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
  throw new SmokeFailure("a request that was admitted is not in GET /v1/usage");
}

async function addsPet(ask: Ask): Promise<void> {
  const name = `Smoke ${crypto.randomUUID()}`;
  const body = `{"name":"${name}","categoryId":${LARGEST},"status":"pending"}`;
  const headers = { ...JSON_CONTENT, "Idempotency-Key": name.replace(" ", "-") };
  const added = await ask("/v1/pets", { method: "POST", body, headers });
  mustBe(added, 201, "POST /v1/pets");
  must(added.text.includes(`"categoryId":${LARGEST}`), `the pet came back as ${added.text}`);
  const again = await ask("/v1/pets", { method: "POST", body, headers });
  must(
    again.status === 201 && again.text === added.text,
    "the same creation, sent again, was answered otherwise",
  );
  const found = await ask(added.headers.get("Location") ?? "/v1/pets/none");
  mustBe(found, 200, "the pet's Location");
  must(found.text === added.text, `the pet at its Location is ${found.text}`);
}

interface Day {
  date: string;
  admitted: number;
}

async function usage(ask: Ask): Promise<Day[]> {
  const answer = await ask("/v1/usage");
  mustBe(answer, 200, "GET /v1/usage");
  const { days } = parsed(answer) as { days?: Day[] };
  return days ?? [];
}

/** Asks again if there was no answer at all: one connection that is lost is no fault of the service. */
function askWith(options: SmokeOptions): Ask {
  return async (path, init) => {
    try {
      return await askOnce(options, path, init).catch(() => askOnce(options, path, init));
    } catch (error) {
      const { message } =
        error instanceof Error && error.cause instanceof Error ? error.cause : (error as Error);
      throw new SmokeFailure(`${options.origin} can't be reached: ${message}`);
    }
  };
}

async function askOnce({ origin, key }: SmokeOptions, path: string, init: RequestInit = {}): Promise<Answer> {
  const headers = { Authorization: `Bearer ${key}`, ...init.headers };
  const signal = AbortSignal.timeout(DEADLINE_MS);
  const response = await fetch(origin + path, { ...init, headers, signal, redirect: "manual" });
  return { status: response.status, headers: response.headers, text: await response.text() };
}

function mustBe({ status: found, headers, text }: Answer, status: number, what: string): void {
  if (found === status) return;
  const details = [
    [", request ", headers.get("X-Request-Id")],
    [", to ", headers.get("Location")],
    [": ", text.split("\n")[0]?.slice(0, 200)],
  ].map(([before, value]) => (value ? `${before}${value}` : ""));
  throw new SmokeFailure(`${what} was answered ${found} instead of ${status}${details.join("")}`);
}

/** An error in the service's own form, with the headers that every answer under /v1 has. */
function mustBeError(answer: Answer, status: number, code: string, what: string): void {
  mustBe(answer, status, what);
  const body = parsed(answer);
  must(body.code === code && body.status === status, `${what} was answered ${answer.text.slice(0, 200)}`);
  for (const name of ["X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "X-Request-Id"]) {
    must(answer.headers.has(name), `the answer to ${what} has no ${name}`);
  }
}

function must(holds: boolean, otherwise: string): asserts holds {
  if (!holds) throw new SmokeFailure(otherwise);
}

/** The object or array that an answer has. */
function parsed({ text }: Answer): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // What is no JSON is none of the service's answers: a page of somebody else.
  }
  must(typeof value === "object" && value !== null, `it answers with ${JSON.stringify(text.slice(0, 80))}`);
  return value as Record<string, unknown>;
}

function sum(numbers: number[]): number {
  return numbers.reduce((total, each) => total + each, 0);
}
