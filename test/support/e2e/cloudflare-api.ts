// A fake of the part of Cloudflare's API that the commands use. Its databases are D1 and its Workers run in workerd, locally. Its
// responses follow Cloudflare's documentation and wrangler's tests.

import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { temporaryFolder } from "../../../bench/measure/cleanup.ts";
import { idOf, startRuntime } from "./cloudflare-runtime.ts";
import { type ApiRequest, ASSETS_TOKEN, apiError, fakeWorkers } from "./cloudflare-workers.ts";
import { fakeTimeTravel } from "./time-travel.ts";

/** The one credential that the API accepts, as a token and as a key. No file contains it by chance. */
export const CREDENTIAL = "the-credential-of-the-account";

const ACCOUNT = "an-account";

/** Answers a request, by its method and its path in the account. `send` does what is asked. May throw an `apiError`. */
type Interceptor = (request: string, body: string, send: () => Promise<unknown>) => Promise<unknown>;

/** Serves an account with these empty databases. `environment` makes wrangler and the commands use it. */
export async function startCloudflareApi(names: string[]) {
  const { folder, remove } = temporaryFolder(true);
  const runtime = await startRuntime(join(folder, "state"));
  const database = (name: string) => runtime.databases[name] as D1Database;
  const histories = new Map(names.map((name) => [name, fakeTimeTravel(database(name))]));
  const timeTravel = (name: string) => histories.get(name) as ReturnType<typeof fakeTimeTravel>;
  const databases = new Map(names.map((name) => [name, newDatabase(name)]));
  const workers = fakeWorkers(runtime);
  let interceptor: Interceptor | undefined;
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
    if (found === undefined) throw apiError(404, 7404, `The database ${id} could not be found`);
    if (action === "query") return runtime.query(found.name, json());
    if (method === "PUT") Object.assign(found, json());
    if (action === undefined) return found;
    if (action === "time_travel/restore") await timeTravel(found.name).restore(searchParams.get("bookmark"));
    if (action === "time_travel/bookmark")
      return { bookmark: await timeTravel(found.name).bookmark(searchParams.get("timestamp")) };
    return {};
  }

  async function answer(incoming: IncomingMessage): Promise<unknown> {
    const { method = "", url = "", headers } = incoming;
    const { authorization = "", "x-auth-key": key, "x-auth-email": email } = headers;
    const isKnown = [`Bearer ${CREDENTIAL}`, `Bearer ${ASSETS_TOKEN}`].includes(authorization);
    if (!isKnown && !(key === CREDENTIAL && email)) throw apiError(403, 10_000, "Authentication error");
    const path = url.replace(`/client/v4/accounts/${ACCOUNT}`, "");
    const name = `${method} ${path.split("?")[0]}`;
    requests.push(name);
    const body = await buffer(incoming);
    const request = { method, path, contentType: headers["content-type"] ?? "", body };
    const send = async () => (path.startsWith("/d1/") ? answerDatabase(request) : workers.answer(request));
    const answered = await (interceptor?.(name, `${body}`, send) ?? send());
    if (answered === undefined) throw apiError(404, 10_007, `${name} is not in the fake`);
    return answered;
  }

  const server = createServer(async (request, response) => {
    const reply = (status: number, body: object) =>
      response.writeHead(status, { "Content-Type": "application/json" }).end(JSON.stringify(body));
    try {
      reply(200, { success: true, errors: [], messages: [], result: await answer(request) });
    } catch (error) {
      const { status = 400, code = 7500, message } = error as Partial<ReturnType<typeof apiError>>;
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
    database,
    databases,
    timeTravel,
    requests,
    /** The requests that change something. Queries of a database are left out. */
    writes: () => requests.filter((request) => !/^GET |\/query$/.test(request)),
    /** Makes `next` answer all requests from now on; without it, the fake does. */
    intercept: (next?: Interceptor) => {
      interceptor = next;
    },
    deployments: workers.deployments,
    subdomain: workers.subdomain,
    /** Production's URL. */
    production: await runtime.urlOf("petstore"),
    async stop() {
      server.close();
      await runtime.stop();
      remove();
    },
  };
}

function newDatabase(name: string, location?: string) {
  return { uuid: idOf(name), name, location, read_replication: { mode: "disabled" } };
}
