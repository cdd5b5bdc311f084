// What runs in the account of the fake of Cloudflare's API: its databases, production and a preview, all in one workerd.

import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { Miniflare, NoOpLog } from "miniflare";
import { experimental_readRawConfig } from "wrangler";
import { d1OverApi } from "../../../scripts/cloudflare/d1-api.ts";

/** The only names that databases and Workers can have here. */
const DATABASES = ["petstore", "petstore-previews"].flatMap((name) => [`${name}-keys`, `${name}-pets`]);
const WORKERS = ["petstore", "staging"];

/** `id` is a database's in production, `database_id` in previews. */
type Binding = { type: string; id?: string; database_id?: string; class_name?: string };

/** A version of a Worker: wrangler's description of it, and its modules and assets by their paths. */
export interface Upload {
  id: string;
  metadata: {
    main_module: string;
    compatibility_date: string;
    exports: Record<string, { type: "durable-object"; storage: "sqlite" }>;
    /** Production has `bindings`, a preview `env`. */
    bindings?: (Binding & { name: string })[];
    env?: Record<string, Binding>;
    annotations?: Record<string, string>;
  };
  modules: Record<string, string>;
  assets: Record<string, Buffer>;
}

export type CloudflareRuntime = Awaited<ReturnType<typeof startRuntime>>;

/** Runs queries inside workerd. Through miniflare's proxy for Node, each statement would take three slow calls. */
const QUERY = `export default {
  async fetch(request, env) {
    const database = env[new URL(request.url).pathname.slice(1)];
    const { batch, ...single } = await request.json();
    const statements = (batch ?? [single]).map(({ sql, params = [] }) => database.prepare(sql).bind(...params));
    const run = batch === undefined ? statements[0].all().then((result) => [result]) : database.batch(statements);
    return Response.json(await run.then((results) => ({ results }), ({ message }) => ({ message })));
  },
};`;

/** Runs under the name of a Worker that is not deployed. */
const NOTHING = `export default { fetch: () => new Response("There is nothing here yet", { status: 404 }) };`;

/** Starts workerd, with its state in `folder`. */
export async function startRuntime(folder: string) {
  const uploads = new Map<string, Upload>();
  const databaseBindings = Object.fromEntries(DATABASES.map((name) => [name, d1(idOf(name))]));
  const options = () => ({
    host: "127.0.0.1",
    port: 0,
    cf: false as const,
    log: new NoOpLog(),
    handleStructuredLogs: () => {},
    resourcePersistencePath: join(folder, "v3"),
    workers: [
      worker("databases", { main: QUERY }, { env: databaseBindings }),
      ...WORKERS.map((name) => deployed(name, folder, uploads.get(name))),
    ],
  });
  const miniflare = new Miniflare(options());
  const urlOf = async (name: string) => (await miniflare.unsafeGetDirectURL(name)).origin;

  /** Makes a version serve all requests to a Worker, or none. The Worker's URL stays. */
  async function run(name: string, upload: Upload | undefined): Promise<void> {
    for (const [path, content] of Object.entries(upload?.assets ?? {})) {
      const file = join(folder, name, path);
      await mkdir(dirname(file), { recursive: true });
      await writeFile(file, content);
    }
    if (upload === undefined) uploads.delete(name);
    else uploads.set(name, upload);
    await miniflare.setOptions(options());
  }

  /** Answers a query in the form of Cloudflare's API. */
  async function query<Result>(name: string, body: unknown): Promise<Result> {
    // workerd closes idle connections without notice; a request on such a connection would fail.
    const request = { method: "POST", headers: { Connection: "close" }, body: JSON.stringify(body) };
    const response = await fetch(`${await urlOf("databases")}/${name}`, request);
    const { results, message } = (await response.json()) as { results: Result; message?: string };
    if (message !== undefined) throw new Error(message);
    return results;
  }

  const databases: Record<string, D1Database> = Object.fromEntries(
    DATABASES.map((name) => [name, d1OverApi((_path, body) => query(name, body), name)]),
  );
  return { databases, query, urlOf, run, stop: () => miniflare.dispose() };
}

/** The id of a database. */
export const idOf = (name: string) => `id-of-${name}`;

const d1 = (id = "") => ({ type: "d1" as const, id });

function deployed(name: string, folder: string, upload: Upload | undefined) {
  if (upload === undefined) return worker(name, { main: NOTHING });
  const { main_module, compatibility_date, exports, bindings, env } = upload.metadata;
  const all = bindings?.map((each) => [each.name, each] as const) ?? Object.entries(env ?? {});
  const own = all.map(([binding, { type, id, database_id, class_name }]) => {
    const object = { type: "durable-object", worker: name, exportName: class_name };
    return [binding, type === "d1" ? d1(id ?? database_id) : object];
  });
  const assets = { directory: join(folder, name), hasUserWorker: true };
  const config = { compatibilityDate: compatibility_date, exports, assets, env: Object.fromEntries(own) };
  return worker(name, upload.modules, config, main_module);
}

/** miniflare's options for a Worker that has its own socket. */
function worker(name: string, modules: Record<string, string>, config: object = {}, mainModule = "main") {
  const esm = Object.entries(modules).map(([path, contents]) => [path, { type: "esm" as const, contents }]);
  const manifest = { mainModule, modulesRoot: "/", modules: Object.fromEntries(esm) };
  const compatibilityDate = String(
    experimental_readRawConfig({ config: "wrangler.toml" }).rawConfig.compatibility_date,
  );
  return {
    config: { type: "worker" as const, name, compatibilityDate, manifest, ...config },
    dev: { unsafeDirectSockets: [{ host: "127.0.0.1", port: 0 }] },
  };
}
