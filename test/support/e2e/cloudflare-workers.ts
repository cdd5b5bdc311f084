// The part of the fake of Cloudflare's API that deploys Workers: uploads, versions and deployments of production, and one preview.
// Its responses are those that wrangler's tests expect.

import { randomUUID } from "node:crypto";
import type { CloudflareRuntime, Upload } from "./cloudflare-runtime.ts";

/** An error response. */
export function apiError(status: number, code: number, message: string) {
  return Object.assign(new Error(message), { status, code });
}

/** A request to the API; its path is relative to the account. */
export interface ApiRequest {
  method: string;
  path: string;
  contentType: string;
  body: Buffer;
}

/** wrangler uploads assets with a token from their upload session. */
export const ASSETS_TOKEN = "token-of-assets";

/** Deploys to `runtime`. */
export function fakeWorkers(runtime: CloudflareRuntime) {
  /** The contents of assets by hash, and the assets of the latest upload. */
  const contents = new Map<string, Buffer>();
  let manifest: Record<string, { hash: string }> = {};
  const versions = new Map<string, Upload>();
  /** Of production, newest first. */
  const deployments: { versions: { version_id: string; percentage: number }[] }[] = [];
  /** Production's settings for workers.dev. */
  const subdomain = { enabled: false, previews_enabled: false };
  let preview: { id: string; name: string; urls: string[] } | undefined;

  async function readUpload(request: ApiRequest): Promise<Upload> {
    const form = await readForm(request);
    const metadata = JSON.parse(`${form.get("metadata")}`);
    const modules: Upload["modules"] = {};
    for (const [, part] of form) {
      if (typeof part !== "string" && part.type.startsWith("application/javascript"))
        modules[part.name] = await part.text();
    }
    const files = Object.entries(manifest).map(([path, { hash }]) => [path, contents.get(hash)]);
    return { id: randomUUID(), metadata, modules, assets: Object.fromEntries(files) };
  }

  async function deploy(id: string) {
    await runtime.run("petstore", versions.get(id));
    deployments.unshift({ versions: [{ version_id: id, percentage: 100 }] });
    return { id: randomUUID() };
  }

  async function answerAssets({ body, ...request }: ApiRequest) {
    if (request.path.endsWith("/assets-upload-session")) {
      ({ manifest } = JSON.parse(`${body}`));
      return { jwt: ASSETS_TOKEN, buckets: [Object.values(manifest).map(({ hash }) => hash)] };
    }
    for (const [hash, part] of await readForm({ body, ...request })) {
      contents.set(hash, Buffer.from(typeof part === "string" ? part : await part.text(), "base64"));
    }
    return { jwt: ASSETS_TOKEN };
  }

  async function answerPreview(request: ApiRequest, id = "", isDeployment = false) {
    if (id === "") {
      const { name } = JSON.parse(`${request.body}`);
      preview = { id: name, name, urls: [await runtime.urlOf(name)] };
      return preview;
    }
    if (preview?.id !== id) throw apiError(404, 10_025, "Preview not found");
    const { name, urls } = preview;
    if (isDeployment) {
      const version = await readUpload(request);
      await runtime.run(name, version);
      return { id: version.id, preview_id: id, preview_name: name, urls, env: {} };
    }
    if (request.method !== "DELETE") return preview;
    preview = undefined;
    await runtime.run(name, undefined);
    return {};
  }

  const describe = ({ id, metadata }: Upload) => ({
    id,
    metadata: { created_on: "2026-11-20T00:00:00Z", author_email: "operator@petstore.example" },
    annotations: metadata.annotations,
    resources: { bindings: metadata.bindings, script: {}, script_runtime: {} },
  });

  /** The result of a request about Workers; undefined if the path is not in the fake. */
  async function answer(request: ApiRequest): Promise<unknown> {
    const { method } = request;
    const [path = ""] = request.path.split("?");
    const json = () => JSON.parse(`${request.body}`);
    if (path.includes("/assets")) return answerAssets({ ...request, path });
    if (path === "/workers/subdomain") return { subdomain: "acme" };
    const [, previews, id, isDeployment] =
      path.match(/^\/workers\/workers\/petstore(\/previews)(?:\/([^/]+))?(\/deployments)?$/) ?? [];
    if (previews !== undefined) return answerPreview(request, id, isDeployment !== undefined);
    const [, rest] = path.match(/^\/workers\/scripts\/petstore(.*)$/) ?? [];
    if (rest === "/subdomain") return method === "POST" ? Object.assign(subdomain, json()) : subdomain;
    if (rest?.startsWith("/domains/")) return { added: [], updated: [], removed: [], conflicting: [] };
    if (rest === "/schedules") return [];
    if (method === "PUT" && rest === "") {
      const version = await readUpload(request);
      versions.set(version.id, version);
      await deploy(version.id);
      return { id: "petstore", deployment_id: version.id };
    }
    if (deployments.length === 0) throw apiError(404, 10_007, "This Worker does not exist on your account.");
    if (path === "/workers/services/petstore")
      return { default_environment: { script: { tags: [], last_deployed_from: "wrangler" } } };
    if (rest === "/deployments" && method === "POST") return deploy(json().versions[0].version_id);
    if (rest === "/deployments") return { deployments };
    const version = versions.get(rest?.replace("/versions/", "") ?? "");
    return version && describe(version);
  }

  return { answer, deployments, subdomain };
}

function readForm({ contentType, body }: ApiRequest): Promise<FormData> {
  return new Response(body, { headers: { "Content-Type": contentType } }).formData();
}
