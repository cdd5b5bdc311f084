// The types of the whole app: its bindings, which are generated from wrangler.toml, and the variables of its modules.

import type { KeysEnv } from "./keys/authenticate.ts";
import type { PetsEnv } from "./pets/prefetch.ts";

export interface AppEnv {
  Bindings: Env;
  Variables: KeysEnv["Variables"] & PetsEnv["Variables"];
}
