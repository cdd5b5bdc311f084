// Runs a command of the project inside the process of the test: to start another process takes longer than most commands.

import { vi } from "vitest";
import { failureLine } from "../../../scripts/cloudflare/target.ts";
import type { Outcome } from "./petstore.ts";

/** What `npm run NAME -- ARGUMENTS` would leave. Not for two at once: both would have what either prints. */
export async function runHere(
  name: string,
  command: (args: string[]) => Promise<void>,
  args: string[],
): Promise<Outcome> {
  const outcome = { exitCode: 0, stdout: "", stderr: "" };
  const spies = (["stdout", "stderr"] as const).map((stream) =>
    vi.spyOn(process[stream], "write").mockImplementation((text) => {
      outcome[stream] += text;
      return true;
    }),
  );
  try {
    await command(args);
  } catch (error) {
    outcome.exitCode = 1;
    outcome.stderr += `${failureLine(name, error)}\n`;
  } finally {
    for (const spy of spies) spy.mockRestore();
  }
  return outcome;
}
