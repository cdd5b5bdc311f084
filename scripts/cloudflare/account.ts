// Cloudflare's API, for what wrangler has no command for, or no command with parsable output. It uses wrangler's
// credentials.

import { withoutDeadline } from "../../src/d1/statements.ts";
import { pause } from "../lib/interrupt.ts";
import { messageOf } from "../lib/io.ts";
import { projectLine } from "../lib/line.ts";
import { formatTime } from "../lib/time.ts";
import { readConfig, runWrangler } from "./wrangler.ts";

/** The envelope of every response. */
interface Envelope<Result> {
  success: boolean;
  errors?: { code: number; message: string }[];
  result: Result;
}

/** D1 cancels a statement after 30 s, and a migration may have several. */
const TIMEOUT_MS = 60_000;

/** The status of a response to a call too many, which was not executed. */
const TOO_MANY = 429;
/** The code of a database with too much to do, also with TOO_MANY. It may have executed the call. */
const DATABASE_OVERLOADED = 7429;

/** How long the API refuses all calls after 1,200 calls of a user in five minutes, if the response has no Retry-After. */
const REFUSED_SECONDS = 300;
/** Longer is not documented: the call is tried again. */
const MAX_REFUSED_SECONDS = 900;

/** Waits in a row. More: work goes on beside other programs of the same user; fewer: hopeless work ends sooner. */
const MAX_WAITS = 3;

/** The API's error codes for a database, a Worker and a preview that do not exist. */
const NOT_FOUND = [7404, 10_007, 10_025];

/** An error response. */
export class CloudflareApiError extends Error {
  readonly code: number;
  /** The call may have taken effect. So may one that got no response. */
  readonly mayHaveHappened: boolean;
  /** Every other call would be refused too. */
  readonly refusesAll: boolean;

  constructor(code: number, status: number, message: string) {
    super(`Cloudflare's API refused: ${message.split("\n")[0]} (${code})`);
    this.code = code;
    this.mayHaveHappened = status >= 500 || code === DATABASE_OVERLOADED;
    this.refusesAll = status === TOO_MANY && code !== DATABASE_OVERLOADED;
  }
}

/** The error response that is the reason for an error. */
export function apiErrorOf(error: unknown): CloudflareApiError | undefined {
  const cause = error instanceof Error ? (error.cause ?? error) : error;
  return cause instanceof CloudflareApiError ? cause : undefined;
}

/** Calls the API, with POST if there is a body. Throws CloudflareApiError, or another error if there is no complete response. */
export type CallApi = <Result>(path: string, body?: unknown, method?: string) => Promise<Result>;

/** Calls whose paths are relative to an account. `label` is its name, or its id if that was given. */
export type Account = CallApi & { label: string };

let opened: Promise<Account> | undefined;

let mayWait = false;

/** Does work of many calls. While the API refuses all, a call waits as long as the API says, up to 15 minutes, and is repeated. */
export async function waitingForCalls<Result>(work: () => Promise<Result>): Promise<Result> {
  mayWait = true;
  try {
    return await withoutDeadline(work);
  } finally {
    mayWait = false;
  }
}

/** Opens the account that wrangler uses. The first call can take a second or two. */
export function openAccount(): Promise<Account> {
  opened ??= findAccount();
  return opened;
}

/** The result of a call; undefined if what it asks for does not exist. */
export function ifFound<Result>(call: Promise<Result>): Promise<Result | undefined> {
  return call.catch((error) => {
    if (error instanceof CloudflareApiError && NOT_FOUND.includes(error.code)) return undefined;
    throw error;
  });
}

async function findAccount(): Promise<Account> {
  const { PETSTORE_PACKAGED_NODE: packaged } = process.env;
  if (packaged)
    throw new Error(
      `${packaged}, or add --allow-packaged-node to let that one use your Cloudflare credential`,
    );
  const callApi = apiWith({ ...(await credentials()), "Content-Type": "application/json" });
  const given = (await readConfig()).account_id || process.env.CLOUDFLARE_ACCOUNT_ID;
  const accounts = given
    ? [{ id: given, name: given }]
    : await callApi<{ id: string; name: string }[]>("/accounts");
  const [account, another] = accounts;
  if (account === undefined || another !== undefined)
    throw new Error("set CLOUDFLARE_ACCOUNT_ID to the account of the service");
  // For wrangler, so that it uses the same account.
  process.env.CLOUDFLARE_ACCOUNT_ID = account.id;
  const within: CallApi = (path, ...request) => callApi(`/accounts/${account.id}${path}`, ...request);
  return Object.assign(within, { label: account.name });
}

function apiWith(headers: Record<string, string>): CallApi {
  const base = process.env.CLOUDFLARE_API_BASE_URL ?? "https://api.cloudflare.com/client/v4";
  /** All calls wait together. */
  let waiting = Promise.resolve();
  let waits = 0;
  return async <Result>(path: string, body?: unknown, method = body === undefined ? "GET" : "POST") => {
    const request = { method, headers, body: body === undefined ? null : JSON.stringify(body) };
    for (;;) {
      const waited = waiting;
      await waited;
      const signal = AbortSignal.timeout(TIMEOUT_MS);
      const response = await fetch(base + path, { ...request, signal }).catch((error: Error) => {
        throw new Error(`Cloudflare's API can't be reached: ${messageOf(error.cause ?? error)}`);
      });
      const { ok, status, statusText } = response;
      // If the connection is lost, the beginning of an envelope may be missing too.
      const text = await response.text().catch(() => "{");
      const envelope = parseEnvelope<Result>(text);
      // A proxy that refuses a call sends no envelope.
      if (envelope === undefined && (ok || text.startsWith("{")))
        throw new Error("Cloudflare's API sent an incomplete response");
      if (envelope?.success) {
        waits = 0;
        return envelope.result;
      }
      const [{ code, message } = { code: status, message: statusText }] = envelope?.errors ?? [];
      const error = new CloudflareApiError(code, status, message);
      if (!error.refusesAll || !mayWait) throw error;
      // Another call may have begun to wait meanwhile.
      if (waiting !== waited) continue;
      if (waits === MAX_WAITS)
        throw new CloudflareApiError(code, status, `${message}, also after ${MAX_WAITS} waits`);
      waits += 1;
      waiting = waitAsTold(response.headers);
    }
  };
}

/** The envelope of a complete response; undefined for anything else. */
function parseEnvelope<Result>(text: string): Envelope<Result> | undefined {
  try {
    const envelope: Envelope<Result> | null = JSON.parse(text);
    return envelope?.success || envelope?.errors?.[0] ? envelope : undefined;
  } catch {
    return undefined;
  }
}

/** Waits until the API takes calls again. Throws CloudflareApiError if a signal ends that. */
async function waitAsTold(headers: Headers): Promise<void> {
  const told = headers.get("Retry-After") ?? "";
  const seconds = /^\d+$/.test(told) ? Math.min(Number(told), MAX_REFUSED_SECONDS) : REFUSED_SECONDS;
  const until = Date.now() + seconds * 1000;
  // Without an Io: a call can be anywhere in a command.
  process.stderr.write(
    `Cloudflare's API takes no calls for now: waiting for ${seconds} s, until ${formatTime(until)}\n`,
  );
  await pause(seconds * 1000).catch(({ message }) => {
    throw new CloudflareApiError(TOO_MANY, TOO_MANY, `too many calls, and the wait was ${message}`);
  });
}

async function credentials(): Promise<Record<string, string>> {
  const { CLOUDFLARE_API_TOKEN: apiToken, CLOUDFLARE_API_KEY: preferred } = process.env;
  // wrangler would return the same a second later.
  if (apiToken && !preferred) return { Authorization: `Bearer ${apiToken}` };
  const { output } = await runWrangler(["auth", "token", "--json"]).catch(() => {
    throw new Error(
      `not logged in to Cloudflare: run ${projectLine("npx wrangler login")}, or set CLOUDFLARE_API_TOKEN`,
    );
  });
  const { type, token, key, email } = JSON.parse(output);
  if (type === "api_key") return { "X-Auth-Key": key, "X-Auth-Email": email };
  return { Authorization: `Bearer ${token}` };
}
