// The project `unit`. Stryker runs it by itself, because the other projects' plugin starts workerd.

import { join } from "node:path";
import { defineConfig } from "vitest/config";
import { HANG_MS } from "./test/support/hang.ts";

/** The part of the Workers runtime that src/ uses outside of workerd. */
export const IN_NODE = {
  alias: {
    "cloudflare:workers": join(import.meta.dirname, "test/support/cloudflare-workers.ts"),
  },
};

export const UNIT = {
  name: "unit",
  include: ["test/unit/**/*.test.ts"],
  setupFiles: ["./test/support/unit-setup.ts"],
  // Half the processor time of a process for each file.
  isolate: false,
  ...IN_NODE,
};

// Stryker runs tests in threads, which can't set the time zone, and on changed sources, which some tests read as texts.
const NOT_FOR_STRYKER = ["site", "documents", "proof", "layout"];
export default defineConfig({
  test: {
    ...UNIT,
    testTimeout: HANG_MS,
    exclude: NOT_FOR_STRYKER.map((name) => `test/unit/${name}.test.ts`),
  },
});
