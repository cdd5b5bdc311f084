// @ts-nocheck
// A Worker that uses the client. A test compiles and runs a copy of this file without the first line in a project where the package
// is installed.

import { env } from "cloudflare:workers";
// biome-ignore lint/correctness/noUndeclaredDependencies: that project has it.
import * as client from "petstore-client";
import { run } from "./program.js";

declare global {
  namespace Cloudflare {
    interface Env {
      baseURL: string;
      apiKey: string;
      /** A server that never answers. */
      silentURL: string;
      /** The service as a service binding. */
      API: Fetcher;
    }
  }
}

// Here Workers allow no request, no timer and no random value.
const { baseURL, apiKey, silentURL } = env;
let isSilent = false;
const petstore = new client.Petstore({
  ...{ baseURL, apiKey: () => apiKey, pace: true, timeoutMs: 1_000, maxRetries: 9 },
  fetch: (url, init) => fetch(isSilent ? silentURL : url, init),
});
// It is only compiled.
export const bound = new client.Petstore({ baseURL, apiKey, fetch: (url, init) => env.API.fetch(url, init) });

export default {
  async fetch({ url }) {
    if (url.endsWith("/program")) return Response.json(await run(client, baseURL, apiKey));
    isSilent = url.endsWith("/silent");
    await petstore.pets.list({ limit: 1 });
    return Response.json(petstore.rateLimit?.minute?.limit);
  },
} satisfies ExportedHandler<Cloudflare.Env>;
