// The types of the whole app: its bindings, which are generated from wrangler.toml, and the variables of its modules.

import type { PetsEnv } from "./pets/prefetch.ts";

export interface AppEnv {
  Bindings: Env;
  Variables: PetsEnv["Variables"];
}
