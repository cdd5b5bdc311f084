// A reporter that ends the output with "N passed, N failed", after the number of validated responses.

import type { Reporter, TestModule } from "vitest/node";
import { validated } from "./openapi-validator.ts";

export default class ClosingLine implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const count = { passed: 0, failed: 0, skipped: 0, pending: 0 };
    for (const module of modules) {
      if (module.state() === "failed" && [...module.children.allTests()].length === 0) count.failed += 1;
      for (const test of module.children.allTests()) count[test.result().state] += 1;
    }
    // Responses that e2e tests validate are counted in other processes.
    const responses = `${validated.exchanges} responses in workerd validated against the OpenAPI document`;
    const skipped = count.skipped > 0 ? `, ${count.skipped} skipped` : "";
    process.stdout.write(`${responses}\n${count.passed} passed, ${count.failed} failed${skipped}\n`);
  }
}
