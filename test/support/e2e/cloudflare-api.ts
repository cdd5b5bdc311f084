// A fake of the part of Cloudflare's API that the commands use: its access to databases, and what an account adds (workers-account.ts).
// Responses follow Cloudflare's documentation and wrangler's tests.

import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { type Context, Hono } from "hono";
import { HTTPException } from "hono/http-exception";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import type { CallApi } from "../../../scripts/cloudflare/account.ts";
import { d1OverApi } from "../../../scripts/cloudflare/d1-api.ts";
import { d1InMemory } from "../../../scripts/cloudflare/d1-file.ts";
import { fakeTimeTravel } from "./time-travel.ts";

/** The one credential that the API accepts, as a token and as a key. No file contains it by chance. */
export const CREDENTIAL = "the-credential-of-the-account";

/** The databases of the service. */
export const DATABASES = [
  "petstore-keys",
  "petstore-pets",
  "petstore-previews-keys",
  "petstore-previews-pets",
];

const BASE = "/client/v4/accounts/an-account";

/** Limits of D1, which SQLite does not have. */
const [MAX_PARAMETERS, MAX_STATEMENT_BYTES, MAX_TEXT_BYTES] = [100, 100_000, 2_000_000];

export type Statement = { sql: string; params?: (string | number | null)[] };

/** Functions that return the results of requests, by method and path in the account; undefined for 404. */
export type Routes = Record<string, (c: Context) => unknown>;

export interface Account {
  /** Runs statements on the database with this id, in a transaction. */
  query(id: string, statements: Statement[]): Promise<unknown>;
  routes: Routes;
  stop?: () => Promise<void>;
}

/** An account whose databases are SQLite in memory, without D1: its answers take a tenth of the time. */
export function memoryAccount(): Account {
  const databases = new Map(DATABASES.map((name) => [idOf(name), d1InMemory()]));
  const query = async (id: string, statements: Statement[]) => {
    const database = databases.get(id) as D1Database;
    return database.batch(statements.map(({ sql, params = [] }) => database.prepare(sql).bind(...params)));
  };
  return { query, routes: {} };
}

/** An error response. */
export function apiError(
  status: ContentfulStatusCode,
  code: number,
  message: string,
  headers: Record<string, string> = {},
) {
  const body = { success: false, errors: [{ code, message }], messages: [], result: null };
  return new HTTPException(status, { message, res: Response.json(body, { status, headers }) });
}

/** The response to a call too many. */
export function tooManyCalls(headers: { "Retry-After"?: string } = {}) {
  return apiError(429, 971, "Please wait and consider throttling your request speed", headers);
}

/** A response with any body. */
export function rawResponse(status: ContentfulStatusCode, body: string) {
  return new HTTPException(status, { res: new Response(body) });
}

/** Sees a request's method, path in the account, and body. `send` does what is asked. May throw an `apiError` or a `rawResponse`. */
type Interceptor = (request: string, body: string, send: () => Promise<void>) => Promise<void>;

/** Serves an account with these databases. `environment` makes wrangler and the commands use it. */
export async function startCloudflareApi({ query, routes }: Account, names: string[]) {
  const databases = new Map(names.map((name) => [name, newDatabase(name)]));
  const requests: string[] = [];
  let interceptor: Interceptor | undefined;

  function find(c: Context) {
    const selected = c.req.param("database");
    const found = [...databases.values()].find(({ uuid, name }) => uuid === selected || name === selected);
    if (found === undefined) throw apiError(404, 7404, `The database ${selected} could not be found`);
    return found;
  }

  const timeTravel = new Map(
    names.map((name) => [name, fakeTimeTravel(databaseOf({ query, routes }, name))]),
  );
  const timeTravelOf = (name: string) => timeTravel.get(name) as ReturnType<typeof fakeTimeTravel>;

  const all: Routes = {
    "POST /d1/database": async (c) => {
      const { name, primary_location_hint: location } = await c.req.json();
      databases.set(name, newDatabase(name, location));
      return databases.get(name);
    },
    "GET /d1/database/:database": find,
    "PUT /d1/database/:database": async (c) => Object.assign(find(c), await c.req.json()),
    "POST /d1/database/:database/query": async (c) => {
      const { batch, ...single } = await c.req.json();
      const statements: Statement[] = batch ?? [single];
      for (const { sql, params = [] } of statements)
        if (params.length > MAX_PARAMETERS || Buffer.byteLength(sql) > MAX_STATEMENT_BYTES)
          throw new Error("a statement is too large");
      const results = (await query(find(c).uuid, statements)) as D1Result<object>[];
      const rows = results.flatMap(({ results }) => results);
      for (const value of [
        statements.flatMap(({ params = [] }) => params),
        rows.flatMap(Object.values),
      ].flat())
        if (Buffer.byteLength(`${value}`) > MAX_TEXT_BYTES) throw new Error("a text is too large");
      return results;
    },
    "GET /d1/database/:database/time_travel/bookmark": async (c) => ({
      bookmark: await timeTravelOf(find(c).name).bookmark(c.req.query("timestamp")),
    }),
    "POST /d1/database/:database/time_travel/restore": async (c) => {
      await timeTravelOf(find(c).name).restore(c.req.query("bookmark"));
      return {};
    },
    ...routes,
  };

  const app = new Hono().basePath(BASE);
  app.use(async ({ req }, next) => {
    const { authorization, "x-auth-key": key, "x-auth-email": email } = req.header();
    if (authorization !== `Bearer ${CREDENTIAL}` && !(key === CREDENTIAL && email))
      throw apiError(403, 10_000, "Authentication error");
    const request = `${req.method} ${req.path.slice(BASE.length)}`;
    requests.push(request);
    await (interceptor?.(request, await req.raw.clone().text(), next) ?? next());
  });
  for (const [route, answer] of Object.entries(all)) {
    const [method = "", path = ""] = route.split(" ");
    app.on(method, path, async (c) => {
      const result = await answer(c);
      return result === undefined
        ? c.notFound()
        : c.json({ success: true, errors: [], messages: [], result });
    });
  }
  app.notFound(({ req }) => apiError(404, 10_007, `${req.method} ${req.path} is not here`).getResponse());
  app.onError((error) =>
    (error instanceof HTTPException ? error : apiError(400, 7500, error.message)).getResponse(),
  );

  const server = createServer(async (incoming, response) => {
    const { method = "", url } = incoming;
    const headers = incoming.headers as HeadersInit;
    const body = method === "GET" ? null : await buffer(incoming);
    const answer = await app.fetch(new Request(`http://localhost${url}`, { method, headers, body }));
    // Before fetch uses a connection again, it waits for a timer, which a test may have faked.
    const closing = { ...Object.fromEntries(answer.headers), connection: "close" };
    response.writeHead(answer.status, closing).end(await answer.text());
  }).listen(0, "127.0.0.1");
  await once(server, "listening");

  return {
    environment: {
      CLOUDFLARE_API_BASE_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}/client/v4`,
      CLOUDFLARE_API_TOKEN: CREDENTIAL,
      CLOUDFLARE_ACCOUNT_ID: "an-account",
    },
    databases,
    timeTravelOf,
    /** All requests so far: method and path in the account, without the query. */
    requests,
    /** Makes `next` see all requests from now on. */
    intercept: (next?: Interceptor) => {
      interceptor = next;
    },
    stop: () => server.close(),
  };
}

export const idOf = (name: string) => `id-of-${name}`;

function newDatabase(name: string, location?: string) {
  return { uuid: idOf(name), name, location, read_replication: { mode: "disabled" } };
}

/** A database, without requests to the API. */
export function databaseOf({ query }: Account, name: string): D1Database {
  type Body = Statement | { batch: Statement[] };
  const callApi = (_: string, body: Body) => query(idOf(name), "batch" in body ? body.batch : [body]);
  return d1OverApi(callApi as CallApi, name);
}
