// wrangler's registry of running Workers: each running `wrangler dev` has a file in a folder, which other processes of wrangler
// read to reach its Worker. Each folder of local state has a registry of its own.

import { resolve } from "node:path";

/** The value of WRANGLER_REGISTRY_PATH for the service with this folder of local state. */
export function registryPath(state: string): string {
  return resolve(state, "registry");
}
