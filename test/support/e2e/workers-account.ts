// An account whose databases are D1 and whose Workers, production and previews, run in workerd. To deployments, it responds as
// wrangler's tests expect.

import { randomUUID } from "node:crypto";
import { join, resolve } from "node:path";
import type { Context } from "hono";
import { Miniflare, NoOpLog } from "miniflare";
import { temporaryFolder } from "../../../bench/measure/cleanup.ts";
import { type Account, apiError, idOf, type Routes, type Statement } from "./cloudflare-api.ts";

/** The only names that databases and Workers can have here. */
const DATABASES = ["petstore-keys", "petstore-pets", "petstore-previews-keys", "petstore-previews-pets"];
const WORKERS = ["petstore", "staging"];

/** `id` is a database's in production, `database_id` in previews. */
type Binding = { type: string; id?: string; database_id?: string; class_name?: string };

/** A version of a Worker: wrangler's description of it, and its modules by their paths. */
interface Upload {
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
}

/** Runs queries inside workerd. Through miniflare's proxy for Node, each statement would take three slow calls. */
const QUERY = `export default {
  async fetch(request, env) {
    const database = env[new URL(request.url).pathname.slice(1)];
    const statements = (await request.json()).map(({ sql, params = [] }) => database.prepare(sql).bind(...params));
    return Response.json(await database.batch(statements).catch(({ message }) => ({ message })));
  },
};`;

/** Runs under the name of a Worker that is not deployed. */
const NOTHING = `export default { fetch: () => new Response("There is nothing here yet", { status: 404 }) };`;

export async function startWorkersAccount() {
  const { folder, remove } = temporaryFolder(true);
  const uploads = new Map<string, Upload>();
  const options = () => ({
    host: "127.0.0.1",
    port: 0,
    cf: false as const,
    log: new NoOpLog(),
    handleStructuredLogs: () => {},
    resourcePersistencePath: join(folder, "v3"),
    workers: [
      worker("databases", QUERY, { env: Object.fromEntries(DATABASES.map(idOf).map((id) => [id, d1(id)])) }),
      ...WORKERS.map((name) => deployed(name, uploads.get(name))),
    ],
  });
  const miniflare = new Miniflare(options());
  const urlOf = async (name: string) => (await miniflare.unsafeGetDirectURL(name)).origin;

  async function query(id: string, statements: Statement[]) {
    // workerd closes idle connections without notice; a request on such a connection would fail.
    const request = { method: "POST", headers: { Connection: "close" }, body: JSON.stringify(statements) };
    const answer = await (await fetch(`${await urlOf("databases")}/${id}`, request)).json();
    const { message } = answer as { message?: string };
    if (message !== undefined) throw new Error(message);
    return answer;
  }

  /** Makes a version serve all requests to a Worker, or none. The Worker's URL stays. */
  async function run(name: string, upload?: Upload) {
    if (upload === undefined) uploads.delete(name);
    else uploads.set(name, upload);
    await miniflare.setOptions(options());
  }

  const versions = new Map<string, Upload>();
  /** Of production, newest first. */
  const deployments: { versions: { version_id: string; percentage: number }[] }[] = [];
  /** Production's settings for workers.dev. */
  const subdomain = { enabled: false, previews_enabled: false };
  /** The one preview. */
  let preview: { id: string; name: string; urls: string[] } | undefined;

  async function deploy(id: string) {
    await run("petstore", versions.get(id));
    deployments.unshift({ versions: [{ version_id: id, percentage: 100 }] });
    return { id: "petstore", deployment_id: id };
  }

  function requireProduction() {
    if (deployments.length === 0) throw apiError(404, 10_007, "This Worker does not exist on your account.");
  }

  function findPreview() {
    if (preview === undefined) throw apiError(404, 10_025, "Preview not found");
    return preview;
  }

  const PREVIEWS = "/workers/workers/petstore/previews";
  const routes: Routes = {
    "GET /workers/subdomain": () => ({ subdomain: "acme" }),
    "GET /workers/services/petstore": () => {
      requireProduction();
      return { default_environment: { script: { tags: [], last_deployed_from: "wrangler" } } };
    },
    // As if Cloudflare had all assets.
    "POST /workers/scripts/petstore/assets-upload-session": () => ({ jwt: "none needed", buckets: [] }),
    "PUT /workers/scripts/petstore": async (c) => {
      const id = randomUUID();
      versions.set(id, await readUpload(c));
      return deploy(id);
    },
    "GET /workers/scripts/petstore/subdomain": () => subdomain,
    "POST /workers/scripts/petstore/subdomain": async ({ req }) => Object.assign(subdomain, await req.json()),
    "POST /workers/scripts/petstore/domains/changeset": () => ({
      ...{ added: [], updated: [], removed: [], conflicting: [] },
    }),
    "PUT /workers/scripts/petstore/domains/records": () => [],
    "PUT /workers/scripts/petstore/schedules": () => [],
    "GET /workers/scripts/petstore/deployments": () => {
      requireProduction();
      return { deployments };
    },
    "POST /workers/scripts/petstore/deployments": async ({ req }) =>
      deploy((await req.json()).versions[0].version_id),
    "GET /workers/scripts/petstore/versions/:id": ({ req }) => {
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

  return {
    query,
    routes,
    deployments,
    subdomain,
    production: await urlOf("petstore"),
    stop,
  } satisfies Account & Record<string, unknown>;
}

async function readUpload({ req }: Context): Promise<Upload> {
  const form = await req.formData();
  const parts = [...form.values()].filter((part) => typeof part !== "string");
  const modules = parts.filter(({ type }) => type.startsWith("application/javascript"));
  const texts = await Promise.all(modules.map(async (part) => [part.name, await part.text()]));
  return { metadata: JSON.parse(`${form.get("metadata")}`), modules: Object.fromEntries(texts) };
}

const d1 = (id = "") => ({ type: "d1" as const, id });

/** miniflare's options for a Worker in its latest version. Its assets are those of the latest build. */
function deployed(name: string, upload: Upload | undefined) {
  if (upload === undefined) return worker(name, NOTHING);
  const { main_module, compatibility_date, exports, bindings, env } = upload.metadata;
  const all = bindings?.map((each) => [each.name, each] as const) ?? Object.entries(env ?? {});
  const own = all.map(([binding, { type, id, database_id, class_name }]) => {
    const object = { type: "durable-object", worker: name, exportName: class_name };
    return [binding, type === "d1" ? d1(id ?? database_id) : object];
  });
  const assets = { directory: resolve("dist"), hasUserWorker: true };
  const config = { compatibilityDate: compatibility_date, exports, assets, env: Object.fromEntries(own) };
  return worker(name, upload.modules, config, main_module);
}

/** miniflare's options for a Worker that has its own socket. A text is its only module. */
function worker(
  name: string,
  code: string | Record<string, string>,
  config: object = {},
  mainModule = "main",
) {
  const texts = typeof code === "string" ? { [mainModule]: code } : code;
  const modules = Object.entries(texts).map(([path, contents]) => [path, { type: "esm" as const, contents }]);
  const manifest = { mainModule, modulesRoot: "/", modules: Object.fromEntries(modules) };
  const compatibilityDate = "2026-09-01";
  return {
    config: { type: "worker" as const, name, compatibilityDate, manifest, ...config },
    dev: { unsafeDirectSockets: [{ host: "127.0.0.1", port: 0 }] },
  };
}
