// A reporter that ends the run with one plain line: "N passed, N failed". Before it, how many answers were held to the
// published document.

import type { Reporter, TestModule } from "vitest/node";
import { validated } from "./documented.ts";

export default class ClosingLine implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const count = { passed: 0, failed: 0, skipped: 0, pending: 0 };
    for (const module of modules) {
      if (module.state() === "failed" && [...module.children.allTests()].length === 0) count.failed += 1;
      for (const test of module.children.allTests()) count[test.result().state] += 1;
    }
    // Those of tests outside of the runtime are counted elsewhere, in processes that are over.
    if (validated.exchanges > 0) {
      process.stdout.write(
        `${validated.exchanges} answers inside the runtime held to the published document\n`,
      );
    }
    const skipped = count.skipped > 0 ? `, ${count.skipped} skipped` : "";
    process.stdout.write(`${count.passed} passed, ${count.failed} failed${skipped}\n`);
  }
}
