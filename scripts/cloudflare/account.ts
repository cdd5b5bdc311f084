// Cloudflare's API, for what wrangler has no command for, or no command with parsable output. It uses wrangler's
// credentials.

import { messageOf } from "../lib/io.ts";
import { readConfig, runWrangler } from "./wrangler.ts";

/** The envelope of every response. */
interface Envelope<Result> {
  success: boolean;
  errors?: { code: number; message: string }[];
  result: Result;
}

/** D1 cancels a statement after 30 s, and a migration may have several. */
const TIMEOUT_MS = 60_000;

/** The API's error codes for a database, a Worker and a preview that do not exist. */
const NOT_FOUND = [7404, 10_007, 10_025];

/** An error response. With a status of 500 or above, the request may have taken effect. */
export class CloudflareApiError extends Error {
  readonly code: number;
  readonly status: number;

  constructor(code: number, status: number, message: string) {
    super(`Cloudflare's API refused: ${message.split("\n")[0]} (${code})`);
    [this.code, this.status] = [code, status];
  }
}

/** Calls the API, with POST if there is a body. Throws CloudflareApiError, or another error if the API is unreachable. */
export type CallApi = <Result>(path: string, body?: unknown, method?: string) => Promise<Result>;

/** Calls whose paths are relative to an account. `label` is its name, or its id if that was given. */
export type Account = CallApi & { label: string };

let opened: Promise<Account> | undefined;

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
  const given = (await readConfig()).account_id ?? process.env.CLOUDFLARE_ACCOUNT_ID;
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
  return async <Result>(path: string, body?: unknown, method = body === undefined ? "GET" : "POST") => {
    const request = { method, headers, body: body === undefined ? null : JSON.stringify(body) };
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    const response = await fetch(base + path, { ...request, signal }).catch((error: Error) => {
      throw new Error(`Cloudflare's API can't be reached: ${messageOf(error.cause ?? error)}`);
    });
    const envelope = (await response.json().catch(() => undefined)) as Envelope<Result> | undefined;
    if (envelope?.success) return envelope.result;
    const { status, statusText } = response;
    const [first = { code: status, message: statusText }] = envelope?.errors ?? [];
    throw new CloudflareApiError(first.code, status, first.message);
  };
}

async function credentials(): Promise<Record<string, string>> {
  const { CLOUDFLARE_API_TOKEN: apiToken, CLOUDFLARE_API_KEY: preferred } = process.env;
  // wrangler would return the same a second later.
  if (apiToken && !preferred) return { Authorization: `Bearer ${apiToken}` };
  const { output } = await runWrangler(["auth", "token", "--json"]).catch(() => {
    throw new Error("not logged in to Cloudflare: run npx wrangler login, or set CLOUDFLARE_API_TOKEN");
  });
  const { type, token, key, email } = JSON.parse(output);
  if (type === "api_key") return { "X-Auth-Key": key, "X-Auth-Email": email };
  return { Authorization: `Bearer ${token}` };
}
