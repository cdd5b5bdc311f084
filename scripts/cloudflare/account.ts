// The account that the commands work in, over Cloudflare's API, for what wrangler has no command for, or none whose answer can be
// read. wrangler finds the credentials, so whoever can deploy can do this too.

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { QUIET, readConfig, WRANGLER } from "./wrangler.ts";

/** What the API answers, whatever was asked. */
interface Answer<Result> {
  success: boolean;
  errors?: { code: number; message: string }[];
  result: Result;
}

const DEADLINE_MS = 20_000;

/** A refusal of the API, with its code and the HTTP status: of 500 and above, it may have done something all the same. */
export class ApiRefusal extends Error {
  readonly code: number;
  readonly status: number;

  constructor(code: number, status: number, message: string) {
    super(`Cloudflare's API refused: ${message.split("\n")[0]} (${code})`);
    this.code = code;
    this.status = status;
  }
}

/** Asks the API at `path`, with POST if there is a body. Throws ApiRefusal, or an error if it can't be reached. */
export type Ask = <Result>(path: string, body?: unknown, method?: string) => Promise<Result>;

let account: Promise<Ask> | undefined;

/** Opens the account that wrangler would use, once. */
export function openAccount(): Promise<Ask> {
  account ??= findAccount();
  return account;
}

async function findAccount(): Promise<Ask> {
  const ask = askWith({ ...(await credentials()), "Content-Type": "application/json" });
  const { account_id } = await readConfig();
  const id = account_id ?? process.env.CLOUDFLARE_ACCOUNT_ID ?? (await onlyAccount(ask));
  // So that wrangler goes to the same one.
  process.env.CLOUDFLARE_ACCOUNT_ID = id;
  return (path, body, method) => ask(`/accounts/${id}${path}`, body, method);
}

function askWith(headers: Record<string, string>): Ask {
  const base = process.env.CLOUDFLARE_API_BASE_URL ?? "https://api.cloudflare.com/client/v4";
  return async <Result>(path: string, body?: unknown, method = body === undefined ? "GET" : "POST") => {
    const request = body === undefined ? { method } : { method, body: JSON.stringify(body) };
    const signal = AbortSignal.timeout(DEADLINE_MS);
    const response = await fetch(base + path, { ...request, headers, signal }).catch((error: Error) => {
      const { message } = error.cause instanceof Error ? error.cause : error;
      throw new Error(`Cloudflare's API can't be reached: ${message}`);
    });
    const answer = (await response.json().catch(() => undefined)) as Answer<Result> | undefined;
    if (answer?.success === true) return answer.result;
    const { status, statusText } = response;
    const [refusal = { code: status, message: statusText }] = answer?.errors ?? [];
    throw new ApiRefusal(refusal.code, status, refusal.message);
  };
}

async function credentials(): Promise<Record<string, string>> {
  const { CLOUDFLARE_API_TOKEN: given, CLOUDFLARE_API_KEY: preferred } = process.env;
  // What wrangler would say too, a second later.
  if (given && !preferred) return { Authorization: `Bearer ${given}` };
  // At any other level it prints nothing, or more than the token.
  const env = { ...process.env, ...QUIET, WRANGLER_LOG: "log" };
  const words = [WRANGLER, "auth", "token", "--json"];
  const { stdout } = await promisify(execFile)(process.execPath, words, { env }).catch(() => {
    throw new Error(
      "you are not logged in to Cloudflare: run npx wrangler login, or set CLOUDFLARE_API_TOKEN",
    );
  });
  const { type, token, key, email } = JSON.parse(stdout);
  return type === "api_key"
    ? { "X-Auth-Key": key, "X-Auth-Email": email }
    : { Authorization: `Bearer ${token}` };
}

async function onlyAccount(ask: Ask): Promise<string> {
  const [account, another] = await ask<{ id: string }[]>("/accounts");
  if (account === undefined || another !== undefined) {
    throw new Error("set CLOUDFLARE_ACCOUNT_ID to the account that the service is deployed in");
  }
  return account.id;
}
