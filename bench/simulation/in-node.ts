// Loads the ladder, whose simulation runs code of Workers, in Node.

import { registerHooks } from "node:module";

const RUNTIME = new URL("../../test/support/cloudflare-workers.ts", import.meta.url).href;
registerHooks({
  resolve: (name, context, next) => next(name === "cloudflare:workers" ? RUNTIME : name, context),
});

export const { measureLadder } = await import("./ladder.ts");
