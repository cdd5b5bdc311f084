// A stand-in for the part of Cloudflare's API that the commands use, because no account can be reached from a test. What
// is behind it is real D1, run locally; how Cloudflare itself answers is taken from its documentation.

import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { getPlatformProxy } from "wrangler";
import { QUIET } from "../../scripts/wrangler.ts";

const TOKEN = "a-token";
const ACCOUNT = "an-account";

interface Query {
  sql: string;
  params?: unknown[];
}

class Refusal extends Error {
  readonly status: number;
  readonly code: number;

  constructor(status: number, code: number, message: string) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** Serves an account with these databases, empty ones. `environment` makes wrangler and the commands use it. */
export async function startCloudflareApi(names: string[]) {
  Object.assign(process.env, QUIET);
  const folder = await mkdtemp(join(tmpdir(), "petstore-test-"));
  const configPath = join(folder, "wrangler.json");
  const d1_databases = names.map((name) => ({ binding: name, database_id: `id-of-${name}` }));
  await writeFile(configPath, JSON.stringify({ name: "an-account", d1_databases }));
  const { env, dispose } = await getPlatformProxy<Record<string, D1Database>>({ configPath, persist: false });
  const databaseOf = (id: string) => env[id.replace(/^id-of-/, "")];

  async function answer(request: IncomingMessage): Promise<unknown> {
    if (request.headers.authorization !== `Bearer ${TOKEN}`) {
      throw new Refusal(403, 10_000, "Authentication error");
    }
    const url = new URL(request.url ?? "", "http://localhost");
    const [, id = "", query] =
      url.pathname.match(`^/client/v4/accounts/${ACCOUNT}/d1/database/([^/]+)(/query)?$`) ?? [];
    const database = query === undefined ? env[id] : databaseOf(id);
    if (database === undefined) throw new Refusal(404, 7404, `The database ${id} could not be found`);
    if (query === undefined) return { uuid: `id-of-${id}`, name: id };
    const body = JSON.parse(await text(request)) as Query & { batch?: Query[] };
    const statement = ({ sql, params = [] }: Query) => database.prepare(sql).bind(...params);
    if (body.batch !== undefined) return database.batch(body.batch.map(statement));
    return [await statement(body).all()];
  }

  const server = createServer(async (request, response) => {
    const reply = (status: number, body: object) =>
      response.writeHead(status, { "Content-Type": "application/json" }).end(JSON.stringify(body));
    try {
      reply(200, { success: true, errors: [], messages: [], result: await answer(request) });
    } catch (error) {
      const { status = 400, code = 7500, message } = error as Partial<Refusal>;
      reply(status, { success: false, errors: [{ code, message }], messages: [], result: null });
    }
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;

  return {
    environment: {
      CLOUDFLARE_API_BASE_URL: `http://127.0.0.1:${port}/client/v4`,
      CLOUDFLARE_API_TOKEN: TOKEN,
      CLOUDFLARE_ACCOUNT_ID: ACCOUNT,
    },
    database: (name: string) => env[name],
    async stop() {
      server.close();
      await dispose();
      await rm(folder, { recursive: true });
    },
  };
}
