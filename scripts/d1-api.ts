// D1 over Cloudflare's API, for commands that work on a deployed database: the part of a D1Database that this project's
// stores use. wrangler finds the credentials, so whoever can deploy can do this too.

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { readConfig, WRANGLER } from "./wrangler.ts";

/** What the API answers, whatever was asked. */
interface Answer<Result> {
  success: boolean;
  errors?: { code: number; message: string }[];
  result: Result;
}

interface Query {
  sql: string;
  params: unknown[];
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

/** The database with this id. `ask` is for the account it is in. */
export function d1OverApi(ask: Ask, databaseId: string): D1Database {
  const run = <Row>(body: Query | { batch: Query[] }) =>
    ask<D1Result<Row>[]>(`/d1/database/${databaseId}/query`, body);
  const statement = (query: Query) => ({
    query,
    bind: (...params: unknown[]) => statement({ ...query, params }),
    all: async () => (await run(query))[0],
    run: async () => (await run(query))[0],
    first: async () => (await run(query))[0]?.results[0] ?? null,
  });
  const database = {
    prepare: (sql: string) => statement({ sql, params: [] }),
    batch: (statements: { query: Query }[]) => run({ batch: statements.map(({ query }) => query) }),
  };
  return database as unknown as D1Database;
}

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

/** What D1 keeps of a database's past. A bookmark names a state of the whole database. */
export interface TimeTravel {
  /** The bookmark of now, or of the latest state at or before `atMs` (Unix time). */
  bookmark(atMs?: number): Promise<string>;
  /** Puts the database back, in place. */
  restore(bookmark: string): Promise<void>;
}

/** The past of the database with this id. */
export function timeTravelOverApi(ask: Ask, databaseId: string): TimeTravel {
  const path = `/d1/database/${databaseId}/time_travel`;
  return {
    bookmark: async (atMs) => {
      const query = atMs === undefined ? "" : `?timestamp=${new Date(atMs).toISOString()}`;
      return (await ask<{ bookmark: string }>(`${path}/bookmark${query}`)).bookmark;
    },
    restore: (bookmark) => ask(`${path}/restore?bookmark=${bookmark}`, undefined, "POST"),
  };
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
  const env = { ...process.env, WRANGLER_LOG: "log" };
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
