// A fake of the part of Cloudflare's API that the commands use. Its databases are D1 and its Workers run in workerd, locally. Its
// responses follow Cloudflare's documentation and wrangler's tests.

import { once } from "node:events";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { buffer } from "node:stream/consumers";
import { Miniflare, NoOpLog } from "miniflare";
import { d1OverApi } from "../../../scripts/cloudflare/d1-api.ts";
import { QUIET } from "../../../scripts/cloudflare/wrangler.ts";
import { ApiError } from "./api-error.ts";
import { type ApiRequest, fakeWorkers } from "./cloudflare-workers.ts";
import { fakeTimeTravel } from "./time-travel.ts";

/** The one credential that the API accepts. No file contains it by chance. */
const CREDENTIAL = "the-credential-of-the-account";

/** The ways to log in, by their variables. Only wrangler knows the older name. OAuth uses a file. */
export const LOGINS = {
  token: { CLOUDFLARE_API_TOKEN: CREDENTIAL },
  olderToken: { CF_API_TOKEN: CREDENTIAL },
  key: { CLOUDFLARE_API_KEY: CREDENTIAL, CLOUDFLARE_EMAIL: "operator@petstore.example" },
  oauth: {},
};

const ACCOUNT = "an-account";

/** The only names that a database can have here. */
const NAMES = ["petstore", "petstore-previews"];

interface Query {
  sql: string;
  params?: unknown[];
}

interface Database {
  uuid: string;
  name: string;
  read_replication: { mode: string };
  location?: string;
}

/** Serves an account with these empty databases. `environment` makes wrangler and the commands use it. */
export async function startCloudflareApi(names: string[] = []) {
  Object.assign(process.env, QUIET);
  const folder = await mkdtemp(join(tmpdir(), "petstore-test-"));
  const state = join(folder, "state");
  const { env, dispose } = await startDatabases(state);
  const timeTravel = new Map(Object.entries(env).map(([name, database]) => [name, fakeTimeTravel(database)]));
  const databases = new Map<string, Database>();
  const workers = await fakeWorkers(join(folder, "workers"), state);
  let interceptor: ((request: string) => unknown) | undefined;
  /** All requests so far: method and path, without the query. */
  const requests: string[] = [];

  async function answerTimeTravel(path: string): Promise<unknown> {
    const { pathname, searchParams } = new URL(path, "http://localhost");
    const [, name = "", action] = pathname.match(/\/database\/id-of-([^/]+)\/time_travel\/(.*)$/) ?? [];
    const history = timeTravel.get(name);
    if (action === "restore" && (await history?.restore(searchParams.get("bookmark")))) return {};
    const bookmark =
      action === "bookmark" && (await history?.bookmark(searchParams.get("timestamp") ?? undefined));
    if (bookmark) return { bookmark };
    throw new ApiError(400, 7500, "There is no such bookmark");
  }

  function createDatabase(name: string, location?: string): Database {
    if (databases.has(name)) throw new ApiError(400, 7502, `A database with name '${name}' already exists`);
    const created = {
      uuid: idOf(name),
      name,
      read_replication: { mode: "disabled" },
      ...(location && { location }),
    };
    databases.set(name, created);
    return created;
  }
  for (const name of names) createDatabase(name);

  async function answerDatabase({ method, path, body }: ApiRequest): Promise<unknown> {
    const json = () => JSON.parse(`${body}`);
    const [, id = "", query] = path.match(/^\/d1\/database(?:\/([^/?]+))?(\/query)?(?:\?.*)?$/) ?? [];
    if (id === "") {
      if (method === "GET") return [...databases.values()];
      const { name, primary_location_hint } = json();
      return createDatabase(name, primary_location_hint);
    }
    const found = [...databases.values()].find(({ uuid, name }) => [uuid, name].includes(id));
    const database = env[found?.name ?? ""];
    if (found === undefined || database === undefined)
      throw new ApiError(404, 7404, `The database ${id} could not be found`);
    if (method === "PUT") Object.assign(found, json());
    if (query === undefined) return found;
    const { batch, ...single } = json() as Query & { batch?: Query[] };
    const statement = ({ sql, params = [] }: Query) => database.prepare(sql).bind(...params);
    return batch === undefined ? [await statement(single).all()] : database.batch(batch.map(statement));
  }

  async function answer(incoming: IncomingMessage): Promise<unknown> {
    const { method = "", url = "", headers } = incoming;
    const { authorization = "", "x-auth-key": key, "x-auth-email": email } = headers;
    const isKnown = authorization === `Bearer ${CREDENTIAL}` || (key === CREDENTIAL && email !== undefined);
    // wrangler uploads assets with a token from their upload session.
    if (!isKnown && !authorization.startsWith("Bearer assets-")) {
      throw new ApiError(403, 10_000, "Authentication error");
    }
    const prefix = `/client/v4/accounts/${ACCOUNT}`;
    requests.push(`${method} ${url.split("?")[0]}`);
    await interceptor?.(`${method} ${url.slice(prefix.length).split("?")[0]}`);
    if (!url.startsWith(`${prefix}/`)) throw new ApiError(404, 7404, `${url} is not in the account`);
    const path = url.slice(prefix.length);
    if (path.includes("/time_travel/")) return answerTimeTravel(path);
    const contentType = headers["content-type"] ?? "";
    const request = { method, path, contentType, body: await buffer(incoming) };
    if (path.startsWith("/d1/database")) return answerDatabase(request);
    const answered = await workers.answer(request);
    if (answered === undefined) throw new ApiError(404, 10_007, `${method} ${path} is not in the fake`);
    return answered;
  }

  const server = createServer(async (request, response) => {
    const reply = (status: number, body: object) =>
      response.writeHead(status, { "Content-Type": "application/json" }).end(JSON.stringify(body));
    try {
      reply(200, { success: true, errors: [], messages: [], result: await answer(request) });
    } catch (error) {
      const { status = 400, code = 7500, message } = error as Partial<ApiError>;
      reply(status, { success: false, errors: [{ code, message }], messages: [], result: null });
    }
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;

  const environment = {
    CLOUDFLARE_API_BASE_URL: `http://127.0.0.1:${port}/client/v4`,
    CLOUDFLARE_API_TOKEN: CREDENTIAL,
    CLOUDFLARE_ACCOUNT_ID: ACCOUNT,
  };

  return {
    environment,
    /**
     * The environment of a logged-in operator, with an own home and temporary folder and wrangler's most verbose log. `leaks`
     * names the files there that contain the credential, except wrangler's own file of OAuth tokens.
     */
    async operator(login: keyof typeof LOGINS) {
      const home = await mkdtemp(join(folder, "home-"));
      const TMPDIR = join(home, "tmp");
      const XDG_CONFIG_HOME = join(home, ".config");
      const loginFile = join(XDG_CONFIG_HOME, ".wrangler", "config", "default.toml");
      await mkdir(TMPDIR);
      await mkdir(dirname(loginFile), { recursive: true });
      const tokens = `oauth_token = "${CREDENTIAL}"\nrefresh_token = "${CREDENTIAL}"\n`;
      if (login === "oauth")
        await writeFile(loginFile, `${tokens}expiration_time = "2099-01-01T00:00:00Z"\n`);
      return {
        environment: {
          ...environment,
          CLOUDFLARE_API_TOKEN: undefined,
          ...LOGINS[login],
          ...{ HOME: home, XDG_CONFIG_HOME, TMPDIR, WRANGLER_LOG: "debug", WRANGLER_LOG_SANITIZE: "false" },
        },
        async leaks() {
          const entries = await readdir(home, { recursive: true, withFileTypes: true });
          const files = entries.flatMap((each) => (each.isFile() ? [join(each.parentPath, each.name)] : []));
          const texts = await Promise.all(files.map((file) => readFile(file, "latin1")));
          return files
            .filter((file, index) => file !== loginFile && texts[index]?.includes(CREDENTIAL))
            .map((file) => relative(home, file));
        },
      };
    },
    database: (name: string) => env[name],
    databases,
    timeTravel: (name: string) => timeTravel.get(name),
    requests,
    /** The requests that change something, with paths relative to the account. Queries of a database are left out. */
    writes: () =>
      requests
        .filter((request) => !request.startsWith("GET ") && !request.endsWith("/query"))
        .map((request) => request.replace(/\/client\/v4\/accounts\/[^/]+/, "")),
    /** Calls this before each request is answered, with its method and its path in the account. It may throw a ApiError. */
    intercept: (next: typeof interceptor) => {
      interceptor = next;
    },
    deployments: workers.deployments,
    subdomain: workers.subdomain,
    production: workers.production,
    async stop() {
      await workers.stop();
      server.close();
      await dispose();
      await rm(folder, { recursive: true });
    },
  };
}

/** Runs queries inside workerd. Through wrangler's proxy for Node, each statement would take three slow calls. */
const QUERY = `export default {
  async fetch(request, env) {
    const database = env[new URL(request.url).pathname.slice(1)];
    const { batch, ...single } = await request.json();
    const statements = (batch ?? [single]).map(({ sql, params }) => database.prepare(sql).bind(...params));
    const run = batch === undefined ? statements[0].all().then((result) => [result]) : database.batch(statements);
    return Response.json(await run.then((results) => ({ results }), ({ message }) => ({ message })));
  },
};`;

async function startDatabases(state: string) {
  const worker = {
    config: {
      type: "worker" as const,
      name: "databases",
      compatibilityDate: "2026-09-18",
      manifest: {
        mainModule: "query.js",
        modulesRoot: state,
        modules: { "query.js": { type: "esm" as const, contents: QUERY } },
      },
      env: Object.fromEntries(NAMES.map((name) => [name, { type: "d1" as const, id: idOf(name) }])),
    },
    dev: { unsafeDirectSockets: [{ host: "127.0.0.1", port: 0 }] },
  };
  const miniflare = new Miniflare({
    host: "127.0.0.1",
    port: 0,
    cf: false,
    log: new NoOpLog(),
    resourcePersistencePath: join(state, "v3"),
    workers: [worker],
  });
  const url = await miniflare.unsafeGetDirectURL("databases");
  const ask = async <Result>(name: string, body: unknown) => {
    // workerd closes idle connections without notice; a request on such a connection would fail.
    const request = { method: "POST", headers: { Connection: "close" }, body: JSON.stringify(body) };
    const response = await fetch(new URL(name, url), request);
    const { results, message } = (await response.json()) as { results: Result; message?: string };
    if (message !== undefined) throw new Error(message);
    return results;
  };
  const env: Record<string, D1Database> = Object.fromEntries(
    NAMES.map((name) => [name, d1OverApi((_path, body) => ask(name, body), name)]),
  );
  return { env, dispose: () => miniflare.dispose() };
}

function idOf(name: string): string {
  return `id-of-${name}`;
}
