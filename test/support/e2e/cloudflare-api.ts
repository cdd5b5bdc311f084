// A fake of the part of Cloudflare's API that the commands use. Its databases are D1 and its Workers run in workerd, locally. Its
// responses follow Cloudflare's documentation and wrangler's tests.

import { once } from "node:events";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { buffer } from "node:stream/consumers";
import { ApiError } from "./api-error.ts";
import { idOf, startRuntime } from "./cloudflare-runtime.ts";
import { type ApiRequest, fakeWorkers } from "./cloudflare-workers.ts";
import { fakeTimeTravel } from "./time-travel.ts";

/** The one credential that the API accepts. No file contains it by chance. */
export const CREDENTIAL = "the-credential-of-the-account";

/** The ways to log in, by their variables. Only wrangler knows the older name. OAuth uses a file. */
export const LOGINS = {
  token: { CLOUDFLARE_API_TOKEN: CREDENTIAL },
  olderToken: { CF_API_TOKEN: CREDENTIAL },
  key: { CLOUDFLARE_API_KEY: CREDENTIAL, CLOUDFLARE_EMAIL: "operator@petstore.example" },
  oauth: {},
};

/** The variables of all of them, unset. */
const NO_LOGIN = Object.fromEntries(
  Object.keys(Object.assign({}, ...Object.values(LOGINS))).map((name) => [name, undefined]),
);

const ACCOUNT = "an-account";

/** Serves an account with these empty databases. `environment` makes wrangler and the commands use it. */
export async function startCloudflareApi(names: string[] = []) {
  const folder = await mkdtemp(join(tmpdir(), "petstore-test-"));
  const runtime = await startRuntime(join(folder, "state"));
  const history = new Map(
    Object.entries(runtime.databases).map(([name, each]) => [name, fakeTimeTravel(each)]),
  );
  const databases = new Map(names.map((name) => [name, newDatabase(name)]));
  const workers = fakeWorkers(runtime);
  let interceptor: ((request: string) => unknown) | undefined;
  /** All requests so far: method and path, without the query. */
  const requests: string[] = [];

  async function answerDatabase({ method, path, body }: ApiRequest): Promise<unknown> {
    const { pathname, searchParams } = new URL(path, "http://localhost");
    const [, id, action] = pathname.match(/^\/d1\/database(?:\/([^/]+))?(?:\/(.+))?$/) ?? [];
    const json = () => JSON.parse(`${body}`);
    if (id === undefined && method === "GET") return [...databases.values()];
    if (id === undefined) {
      const { name, primary_location_hint: location } = json();
      databases.set(name, newDatabase(name, location));
      return databases.get(name);
    }
    const found = [...databases.values()].find(({ uuid, name }) => [uuid, name].includes(id));
    if (found === undefined) throw new ApiError(404, 7404, `The database ${id} could not be found`);
    if (action === "query") return runtime.query(found.name, json());
    if (method === "PUT") Object.assign(found, json());
    if (action === undefined) return found;
    const copies = history.get(found.name);
    if (action === "time_travel/restore" && (await copies?.restore(searchParams.get("bookmark")))) return {};
    const bookmark =
      action === "time_travel/bookmark" &&
      (await copies?.bookmark(searchParams.get("timestamp") ?? undefined));
    if (bookmark) return { bookmark };
    throw new ApiError(400, 7500, "There is no such bookmark");
  }

  async function answer(incoming: IncomingMessage): Promise<unknown> {
    const { method = "", url = "", headers } = incoming;
    const { authorization = "", "x-auth-key": key, "x-auth-email": email } = headers;
    const isKnown = authorization === `Bearer ${CREDENTIAL}` || (key === CREDENTIAL && email !== undefined);
    // wrangler uploads assets with a token from their upload session.
    if (!isKnown && !authorization.startsWith("Bearer assets-"))
      throw new ApiError(403, 10_000, "Authentication error");
    const path = url.replace(`/client/v4/accounts/${ACCOUNT}`, "");
    const name = `${method} ${path.split("?")[0]}`;
    requests.push(name);
    await interceptor?.(name);
    const request = {
      method,
      path,
      contentType: headers["content-type"] ?? "",
      body: await buffer(incoming),
    };
    const answered = await (path.startsWith("/d1/") ? answerDatabase(request) : workers.answer(request));
    if (answered === undefined) throw new ApiError(404, 10_007, `${name} is not in the fake`);
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
    operator: (login: keyof typeof LOGINS) => newOperator(join(folder, "home-"), login, environment),
    database: (name: string) => runtime.databases[name],
    databases,
    timeTravel: (name: string) => history.get(name),
    requests,
    /** The requests that change something. Queries of a database are left out. */
    writes: () => requests.filter((request) => !/^GET |\/query$/.test(request)),
    /** Calls this before each request is answered, with its method and its path in the account. It may throw an ApiError. */
    intercept: (next: typeof interceptor) => {
      interceptor = next;
    },
    deployments: workers.deployments,
    subdomain: workers.subdomain,
    /** Production's URL. */
    production: await runtime.urlOf("petstore"),
    async stop() {
      server.close();
      await runtime.stop();
      await rm(folder, { recursive: true });
    },
  };
}

function newDatabase(name: string, location?: string) {
  return { uuid: idOf(name), name, location, read_replication: { mode: "disabled" } };
}

/**
 * A logged-in operator: an environment with its own home and temporary folder and wrangler's most verbose log. `leaks` names the
 * files there that contain the credential, except wrangler's own file of OAuth tokens.
 */
async function newOperator(prefix: string, login: keyof typeof LOGINS, account: NodeJS.ProcessEnv) {
  const HOME = await mkdtemp(prefix);
  const [TMPDIR, XDG_CONFIG_HOME] = [join(HOME, "tmp"), join(HOME, ".config")];
  const loginFile = join(XDG_CONFIG_HOME, ".wrangler", "config", "default.toml");
  await mkdir(TMPDIR);
  await mkdir(dirname(loginFile), { recursive: true });
  const tokens = `oauth_token = "${CREDENTIAL}"\nrefresh_token = "${CREDENTIAL}"\n`;
  if (login === "oauth") await writeFile(loginFile, `${tokens}expiration_time = "2099-01-01T00:00:00Z"\n`);
  const folders = { HOME, TMPDIR, XDG_CONFIG_HOME };
  const logs = { WRANGLER_LOG: "debug", WRANGLER_LOG_SANITIZE: "false" };
  return {
    environment: { ...account, ...NO_LOGIN, ...LOGINS[login], ...folders, ...logs },
    async leaks() {
      const entries = await readdir(HOME, { recursive: true, withFileTypes: true });
      const files = entries.filter((each) => each.isFile()).map((each) => join(each.parentPath, each.name));
      const texts = await Promise.all(files.map((file) => readFile(file, "latin1")));
      return files.filter((file, index) => file !== loginFile && texts[index]?.includes(CREDENTIAL));
    },
  };
}
