// An account whose databases are D1 and whose Workers, production and previews, run in workerd. To deployments, it responds as
// wrangler's tests expect.

import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:net";
import { join, resolve } from "node:path";
import type { Context } from "hono";
import { Miniflare, NoOpLog } from "miniflare";
import { temporaryFolder } from "../../../bench/measure/cleanup.ts";
import { apiError, DATABASES, idOf, type Routes, type Statement } from "./cloudflare-api.ts";

/** `id` is a database's in production, `database_id` in previews. */
type Binding = { type: string; id?: string; database_id?: string; class_name?: string };

/** A version of a Worker: wrangler's description of it, and its modules by their paths. */
interface Version {
  metadata: {
    main_module: string;
    compatibility_date: string;
    exports?: Record<string, { type: "durable-object"; storage: "sqlite" }>;
    /** Production has `bindings`, a preview `env`. */
    bindings?: (Binding & { name: string })[];
    env?: Record<string, Binding>;
    assets?: object;
    code_update_strategy?: object;
    annotations?: Record<string, string>;
  };
  modules: Record<string, string>;
}

/** Runs queries inside workerd. Through miniflare's proxy for Node, each statement would take three slow calls. */
const QUERY = `export default {
  async fetch(request, env) {
    const database = env[new URL(request.url).pathname.slice(1)];
    const statements = (await request.json()).map(({ sql, params = [] }) => database.prepare(sql).bind(...params));
    return Response.json(await database.batch(statements).catch(({ message }) => ({ message })));
  },
};`;

const NOTHING = script(`export default { fetch: () => new Response("Nothing here yet", { status: 404 }) };`);

export async function startWorkersAccount() {
  const { folder, remove } = temporaryFolder(true);
  const [port, ...ports] = await findPorts(4);
  const databases = DATABASES.map(idOf).map((id) => ({ name: id, type: "d1", id }));
  /** What runs. */
  const workers = new Map([
    ["databases", script(QUERY, databases)],
    ["petstore", NOTHING],
    ["staging", NOTHING],
  ]);
  const options = () => ({
    host: "127.0.0.1",
    port,
    cf: false as const,
    log: new NoOpLog(),
    handleStructuredLogs: () => {},
    resourcePersistencePath: join(folder, "v3"),
    workers: [...workers].map(([name, version], index) => worker(name, version, ports[index])),
  });
  const miniflare = new Miniflare(options());
  const urlOf = async (name: string) => (await miniflare.unsafeGetDirectURL(name)).origin;

  async function query(id: string, statements: Statement[]) {
    // workerd closes idle connections without notice; a request on such a connection would fail.
    const request = { method: "POST", headers: { Connection: "close" }, body: JSON.stringify(statements) };
    const response = await fetch(`${await urlOf("databases")}/${id}`, request);
    const answer = (await response.json()) as D1Result<object>[] | { message: string };
    if ("message" in answer) throw new Error(answer.message);
    return answer;
  }

  /** Makes a version serve all requests to a Worker. The Worker's URL stays. */
  async function run(name: string, version = NOTHING) {
    workers.set(name, version);
    await miniflare.setOptions(options());
  }

  const versions = new Map<string, Version>();
  /** Of production, newest first. The strategy says when objects get the code. */
  const deployments: { versions: { version_id: string; percentage: number }[]; strategy?: object }[] = [];
  /** Production's settings for workers.dev. */
  const subdomain = { enabled: false, previews_enabled: false };
  /** The one preview. */
  let preview: { id: string; name: string; urls: string[] } | undefined;

  async function deploy(id: string, strategy = {}) {
    await run("petstore", versions.get(id));
    deployments.unshift({ versions: [{ version_id: id, percentage: 100 }], strategy });
    return { id: "petstore", deployment_id: id };
  }

  function findPreview() {
    if (preview === undefined) throw apiError(404, 10_025, "Preview not found");
    return preview;
  }

  const SCRIPT = "/workers/scripts/petstore";
  const PREVIEWS = "/workers/workers/petstore/previews";
  const routes: Routes = {
    "GET /workers/subdomain": () => ({ subdomain: "acme" }),
    "GET /workers/services/petstore": () =>
      deployments[0] && { default_environment: { script: { tags: [], last_deployed_from: "wrangler" } } },
    // As if Cloudflare had all assets.
    [`POST ${SCRIPT}/assets-upload-session`]: () => ({ jwt: "none needed", buckets: [] }),
    [`PUT ${SCRIPT}`]: async (c) => {
      const id = randomUUID();
      const version = await readUpload(c);
      versions.set(id, version);
      return deploy(id, version.metadata.code_update_strategy);
    },
    "GET /workers/workers/petstore": () => ({ subdomain }),
    [`POST ${SCRIPT}/subdomain`]: async ({ req }) => Object.assign(subdomain, await req.json()),
    [`POST ${SCRIPT}/domains/changeset`]: () => ({ added: [], updated: [], removed: [], conflicting: [] }),
    [`PUT ${SCRIPT}/domains/records`]: () => [],
    [`PUT ${SCRIPT}/schedules`]: () => [],
    [`GET ${SCRIPT}/deployments`]: () => deployments[0] && { deployments },
    [`POST ${SCRIPT}/deployments`]: async ({ req }) => {
      const { versions, code_update_strategy } = await req.json();
      return deploy(versions[0].version_id, code_update_strategy);
    },
    [`GET ${SCRIPT}/versions/:id`]: ({ req }) => {
      const id = req.param("id") ?? "";
      const { annotations, bindings } = versions.get(id)?.metadata ?? {};
      const metadata = { created_on: "2026-11-20T00:00:00Z", author_email: "operator@petstore.example" };
      return { id, metadata, annotations, resources: { bindings, script: {}, script_runtime: {} } };
    },
    [`POST ${PREVIEWS}`]: async ({ req }) => {
      const { name } = await req.json();
      preview = { id: name, name, urls: [await urlOf(name)] };
      return preview;
    },
    [`GET ${PREVIEWS}/:name`]: findPreview,
    [`PATCH ${PREVIEWS}/:name`]: findPreview,
    [`DELETE ${PREVIEWS}/:name`]: async () => {
      await run(findPreview().name);
      preview = undefined;
      return {};
    },
    [`POST ${PREVIEWS}/:name/deployments`]: async (c) => {
      const { name, urls } = findPreview();
      await run(name, await readUpload(c));
      return { id: randomUUID(), preview_id: name, preview_name: name, urls, env: {} };
    },
  };

  async function stop() {
    await miniflare.dispose();
    remove();
  }

  const production = await urlOf("petstore");
  return { query, routes, deployments, subdomain, production, stop };
}

async function readUpload({ req }: Context): Promise<Version> {
  const form = await req.formData();
  const parts = [...form.values()].filter((part) => typeof part !== "string");
  const modules = parts.filter(({ type }) => type.startsWith("application/javascript"));
  const texts = await Promise.all(modules.map(async (part) => [part.name, await part.text()]));
  return { metadata: JSON.parse(`${form.get("metadata")}`), modules: Object.fromEntries(texts) };
}

/** A version with one module. */
function script(code: string, bindings: Version["metadata"]["bindings"] = []): Version {
  const metadata = { main_module: "main", compatibility_date: "2026-09-01", bindings };
  return { metadata, modules: { main: code } };
}

/**
 * Finds free ports that stay free while workerd restarts: below 32768, the first port that Linux gives to outgoing connections. Test files
 * run in processes of their own, so each begins at another port.
 */
async function findPorts(count: number): Promise<number[]> {
  const ports: number[] = [];
  for (let port = 10_000 + ((process.pid * 2 * count) % 20_000); ports.length < count; port++) {
    const server = createServer().listen(port, "127.0.0.1");
    const isFree = await once(server, "listening").then(
      () => true,
      () => false,
    );
    server.close();
    if (isFree) ports.push(port);
  }
  return ports;
}

/** miniflare's options for a Worker that has its own socket. Assets are those of the latest build. */
function worker(name: string, { metadata, modules }: Version, port = 0) {
  const { main_module: mainModule, compatibility_date: compatibilityDate, exports = {} } = metadata;
  const { bindings, env = {} } = metadata;
  const named = bindings?.map((each) => [each.name, each] as const) ?? Object.entries(env);
  const own = named.map(([binding, { type, id, database_id, class_name }]) => {
    const object = { type: "durable-object", worker: name, exportName: class_name };
    return [binding, type === "d1" ? { type, id: id ?? database_id } : object];
  });
  const texts = Object.entries(modules).map(([path, contents]) => [path, { type: "esm" as const, contents }]);
  const manifest = { mainModule, modulesRoot: "/", modules: Object.fromEntries(texts) };
  const assets = metadata.assets && { directory: resolve("dist"), hasUserWorker: true };
  return {
    config: {
      ...{ name, compatibilityDate, manifest, exports, env: Object.fromEntries(own) },
      ...(assets && { assets }),
    },
    dev: { unsafeDirectSockets: [{ host: "127.0.0.1", port }] },
  };
}
