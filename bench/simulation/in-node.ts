// Loads the simulations, which run code of Workers, in Node.

import { registerHooks } from "node:module";

const RUNTIME = new URL("../../test/support/cloudflare-workers.ts", import.meta.url).href;
registerHooks({
  resolve: (name, context, next) =>
    name === "cloudflare:workers" ? { url: RUNTIME, shortCircuit: true } : next(name, context),
});

export const { measureLadder } = await import("./ladder.ts");
export const { measureGeo } = await import("./geo.ts");
export const { measureObjects } = await import("./objects.ts");
