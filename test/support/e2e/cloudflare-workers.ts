// The part of the fake of Cloudflare's API that deploys Workers: it runs each uploaded version by `wrangler dev`, with the
// account's databases, so that a smoke test can use it. Its responses are those that wrangler's tests expect.

import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdir, writeFile } from "node:fs/promises";
import { type AddressInfo, connect, createServer } from "node:net";
import { dirname, join } from "node:path";
import { pipeline } from "node:stream";
import { QUIET, WRANGLER } from "../../../scripts/cloudflare/wrangler.ts";
import { ApiError } from "./api-error.ts";

/** A request to the API; its path is relative to the account. */
export interface ApiRequest {
  method: string;
  path: string;
  contentType: string;
  body: Buffer;
}

interface Binding {
  type: string;
  name: string;
  /** A database's id: `id` in production, `database_id` in previews. */
  id?: string;
  database_id?: string;
  class_name?: string;
}

/** wrangler's description of an upload. */
interface Metadata {
  main_module: string;
  compatibility_date: string;
  exports: object;
  assets: { jwt: string; config: { _headers?: string } };
  /** Production has `bindings`, a list; a preview `env`, by name. */
  bindings?: Binding[];
  env?: Record<string, Omit<Binding, "name">>;
  annotations?: Record<string, string>;
}

interface Version {
  id: string;
  metadata: Metadata;
  /** Modules and assets by their paths. */
  files: Map<string, string | Buffer>;
}

/** Runs what is deployed in `folder`, with the account's databases in `state`. */
export async function fakeWorkers(folder: string, state: string) {
  const contents = new Map<string, Buffer>();
  const manifests = new Map<string, Record<string, { hash: string }>>();
  const versions = new Map<string, Version>();
  /** Of production, newest first. */
  const deployments: { versions: { version_id: string; percentage: number }[] }[] = [];
  const previews = new Map<string, { id: string; name: string; urls: string[] }>();
  const production = await startProxy();
  /** Of previews, by id, deleted ones included. */
  const proxies = new Map<string, WorkerProxy>();
  const running = new Map<string, Awaited<ReturnType<typeof serve>>>();
  /** Production's settings for workers.dev. */
  const subdomain = { enabled: false, previews_enabled: false };

  /** Makes a version serve all requests to production or to a preview. */
  async function run(name: string, version: Version): Promise<void> {
    await running.get(name)?.stop();
    const proxy = proxies.get(name) ?? production;
    running.set(name, await serve(join(folder, version.id), state, name, version, proxy));
  }

  async function readUpload({ contentType, body }: ApiRequest): Promise<Version> {
    const form = await new Response(body, { headers: { "Content-Type": contentType } }).formData();
    const metadata = JSON.parse(`${form.get("metadata")}`) as Metadata;
    const files: Version["files"] = new Map();
    for (const [, part] of form) {
      if (typeof part !== "string") files.set(part.name, Buffer.from(await part.arrayBuffer()));
    }
    for (const [path, { hash }] of Object.entries(manifests.get(metadata.assets.jwt) ?? {})) {
      files.set(join("assets", path), contents.get(hash) ?? "");
    }
    const headers = metadata.assets.config._headers ?? files.get("_headers");
    if (headers !== undefined) files.set("assets/_headers", headers);
    const version = { id: randomUUID(), metadata, files };
    versions.set(version.id, version);
    return version;
  }

  async function deploy(name: string, id: string) {
    const version = versions.get(id);
    if (version === undefined) throw new ApiError(404, 10_007, `there is no version ${id}`);
    await run(name, version);
    deployments.unshift({ versions: [{ version_id: id, percentage: 100 }] });
    return { id: randomUUID() };
  }

  const describe = ({ id, metadata }: Version) => ({
    id,
    number: 1,
    metadata: { created_on: "2026-11-20T00:00:00Z", source: "wrangler", author_email: "op@petstore.example" },
    annotations: metadata.annotations,
    resources: { bindings: metadata.bindings, script: { etag: id }, script_runtime: {} },
  });

  const describeDeployment = (deployment: (typeof deployments)[number], index: number) => ({
    id: `deployment-${deployments.length - index}`,
    source: "wrangler",
    strategy: "percentage",
    created_on: "2026-11-20T00:00:00Z",
    annotations: {},
    ...deployment,
  });

  /** The result of a request about Workers; undefined if the path is not in the fake. */
  async function answer(request: ApiRequest): Promise<unknown> {
    const { method, body } = request;
    const [path = ""] = request.path.split("?");
    const json = () => JSON.parse(`${body}`);
    const [, script = "", rest = ""] = path.match(/^\/workers\/scripts\/([^/]+)(.*)$/) ?? [];

    if (path === "/workers/assets/upload") {
      const form = await new Response(body, { headers: { "Content-Type": request.contentType } }).formData();
      for (const [hash, part] of form) {
        contents.set(hash, Buffer.from(typeof part === "string" ? part : await part.text(), "base64"));
      }
      return { jwt: [...manifests.keys()].at(-1) };
    }
    if (rest === "/assets-upload-session") {
      const { manifest } = json() as { manifest: Record<string, { hash: string }> };
      const jwt = `assets-${randomUUID()}`;
      manifests.set(jwt, manifest);
      const wanted = Object.values(manifest).filter(({ hash }) => !contents.has(hash));
      return { jwt, buckets: wanted.length === 0 ? [] : [wanted.map(({ hash }) => hash)] };
    }
    if (path === "/workers/subdomain") return { subdomain: "acme" };
    if (rest === "/subdomain") return method === "POST" ? Object.assign(subdomain, json()) : subdomain;
    if (rest.startsWith("/domains/")) return { added: [], updated: [], removed: [], conflicting: [] };
    if (rest === "/schedules") return [];

    const preview = path.match(/^\/workers\/workers\/([^/]+)\/previews(?:\/([^/]+))?(\/deployments)?$/);
    if (preview !== null) {
      const [, , identifier = "", isDeployment] = preview;
      if (method === "POST" && identifier === "") {
        const { name } = json();
        const id = `preview-${name}`;
        const proxy = await startProxy();
        const created = { id, name, slug: name, worker_name: "petstore", urls: [proxy.url] };
        previews.set(id, created);
        proxies.set(id, proxy);
        return created;
      }
      const found = [...previews.values()].find(({ id, name }) => [id, name].includes(identifier));
      if (found === undefined) throw new ApiError(404, 10_025, "Preview not found");
      if (isDeployment) {
        const version = await readUpload(request);
        await run(found.id, version);
        return { id: version.id, preview_id: found.id, preview_name: found.name, urls: found.urls, env: {} };
      }
      if (method === "DELETE") {
        previews.delete(found.id);
        await running.get(found.id)?.stop();
        running.delete(found.id);
      }
      return found;
    }

    if (method === "PUT" && rest === "") {
      const version = await readUpload(request);
      await deploy(script, version.id);
      return {
        id: script,
        etag: version.id,
        deployment_id: version.id.replaceAll("-", ""),
        startup_time_ms: 1,
        tag: "a-tag",
      };
    }
    if (deployments.length === 0)
      throw new ApiError(404, 10_007, "This Worker does not exist on your account.");
    if (path === "/workers/services/petstore") {
      return { default_environment: { script: { tag: "a-tag", tags: [], last_deployed_from: "wrangler" } } };
    }
    if (rest === "/deployments") {
      if (method === "GET") return { deployments: deployments.map(describeDeployment) };
      return deploy(script, json().versions[0].version_id);
    }
    if (rest === "/versions" && method === "POST") return describe(await readUpload(request));
    const [, id] = rest.match(/^\/versions\/([^/]+)$/) ?? [];
    const version = versions.get(id ?? "");
    if (version !== undefined) return describe(version);
    return undefined;
  }

  return {
    answer,
    deployments,
    /** Production's URL. Connections are cut until the first deployment. */
    production: production.url,
    subdomain,
    async stop() {
      for (const { stop } of running.values()) await stop();
      for (const proxy of [production, ...proxies.values()]) proxy.close();
    },
  };
}

type WorkerProxy = Awaited<ReturnType<typeof startProxy>>;

/** Forwards connections from a constant port to that of the version that runs, and cuts them while none runs. */
async function startProxy() {
  let target: number | undefined;
  const server = createServer((socket) => {
    if (target === undefined) socket.destroy();
    else pipeline(socket, connect(target, "127.0.0.1"), socket, () => {});
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  const forwardTo = (next: number | undefined) => {
    target = next;
  };
  return { url: `http://127.0.0.1:${port}`, forwardTo, close: () => server.close() };
}

/** Runs a version behind a proxy until `stop` is called. */
async function serve(
  folder: string,
  state: string,
  name: string,
  { metadata, files }: Version,
  proxy: WorkerProxy,
) {
  for (const [path, content] of files) {
    const file = join(folder, path);
    await mkdir(dirname(file), { recursive: true });
    await writeFile(file, content);
  }
  const bindings =
    metadata.bindings ?? Object.entries(metadata.env ?? {}).map(([key, each]) => ({ ...each, name: key }));
  const ofType = (type: string) => bindings.filter((each) => each.type === type);
  const config = {
    name,
    main: metadata.main_module,
    no_bundle: true,
    compatibility_date: metadata.compatibility_date,
    exports: metadata.exports,
    assets: { directory: "assets" },
    d1_databases: ofType("d1").map((each) => ({
      binding: each.name,
      database_id: each.id ?? each.database_id,
    })),
    durable_objects: {
      bindings: ofType("durable_object_namespace").map((each) => ({ ...each, type: undefined })),
    },
  };
  const path = join(folder, "wrangler.json");
  await writeFile(path, JSON.stringify(config));
  const words = ["dev", "--config", path, "--ip", "127.0.0.1", "--port", "0", "--inspector-port", "0"];
  const child = spawn(
    process.execPath,
    [WRANGLER, ...words, "--persist-to", state, "--show-interactive-dev-session=false"],
    {
      env: { ...process.env, ...QUIET, WRANGLER_LOG: "error" },
      stdio: ["ignore", "pipe", "pipe", "ipc"],
      // Its own process group, to end wrangler and workerd together.
      detached: true,
    },
  );
  let printed = "";
  for (const stream of [child.stdout, child.stderr]) stream?.on("data", (chunk) => (printed += chunk));
  const ended = once(child, "close");
  const [ready] = await Promise.race([once(child, "message"), ended]);
  if (child.exitCode !== null) throw new Error(`the deployed version does not start:\n${printed}`);
  proxy.forwardTo(JSON.parse(ready).port);
  const stop = async () => {
    proxy.forwardTo(undefined);
    endGroup(child);
    await ended;
  };
  return { stop };
}

function endGroup({ pid }: ChildProcess): void {
  try {
    if (pid !== undefined) process.kill(-pid, "SIGTERM");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}
