// Switches off everything that saves hops: each has one constant in its file.

import { relative } from "node:path";
import { fileURLToPath } from "node:url";

/** The file of each mechanism, and its switch. */
export const SWITCHES: Record<string, string> = {
  "src/lib/freshness.ts": "REFRESHES_AHEAD",
  "src/pets/page-cache.ts": "PAGES_ARE_KEPT",
  "src/pets/prefetch.ts": "READS_AHEAD",
  "src/d1/replicas.ts": "REPLICAS_ENABLED",
};

const root = fileURLToPath(new URL("../..", import.meta.url).href);

/** A plugin of Vite by which the code is loaded as if the switches stood at `false`. */
export function switchOff(switches: Record<string, string> = SWITCHES) {
  return {
    name: "switch-off",
    enforce: "pre" as const,
    transform(code: string, id: string): string | undefined {
      const name = switches[relative(root, id.split("?")[0] ?? id)];
      if (name === undefined) return undefined;
      const on = `export const ${name}: boolean = true;`;
      if (!code.includes(on)) throw new Error(`${id}: ${name} is no switch`);
      return code.replace(on, `export const ${name}: boolean = false;`);
    },
  };
}
