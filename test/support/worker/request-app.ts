// Sends a request to the app, with `bindings` in place of the real ones, and waits for its work in the background.

import { createExecutionContext, waitOnExecutionContext } from "cloudflare:test";
import { env, withEnv } from "cloudflare:workers";
import { app } from "../../../src/app.ts";
import { expectDocumented, newAddress, ORIGIN } from "./client.ts";

export async function requestApp(path: string, init: RequestInit, bindings: Partial<Env>): Promise<Response> {
  const headers = new Headers(init.headers);
  if (!headers.has("CF-Connecting-IP")) headers.set("CF-Connecting-IP", newAddress());
  const ctx = createExecutionContext();
  const all = { ...env, ...bindings };
  const send = () => app.request(ORIGIN + path, { ...init, headers }, all, ctx);
  const response = await (withEnv(all, send) as ReturnType<typeof send>);
  await waitOnExecutionContext(ctx);
  await expectDocumented(init.method ?? "GET", path, response);
  return response;
}
