// Runs a command in the process of the test: starting a process takes longer than most commands.

import { vi } from "vitest";
import { failureLine } from "../../../scripts/lib/command.ts";
import type { Outcome } from "./petstore.ts";

/** The outcome of `npm run NAME -- ARGUMENTS`. Not for concurrent calls, which would capture each other's output. */
export async function runInProcess(
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
