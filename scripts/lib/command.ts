// What every command has: options, output, and a failure as one line on standard error with exit code 1.

import { type ParseArgsConfig, parseArgs } from "node:util";
import { withoutSecrets } from "../../src/keys/secret.ts";

/** Wrong usage. The message says what to do. */
export class UsageError extends Error {}

/** Parses the arguments of `npm run NAME`. Throws UsageError. */
export function readArguments<const Config extends ParseArgsConfig>(name: string, config: Config) {
  try {
    return parseArgs(config);
  } catch (error) {
    // After the first sentence Node gives advice about its own syntax.
    const [problem] = messageOf(error).split(/\. |\.?\n/);
    throw new UsageError(`${problem}: see npm run ${name} -- --help`);
  }
}

/** Writes a line to standard output. */
export function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

/** Runs a command. Any error ends it with exit code 1 and one line on standard error. */
export async function runCommand(name: string, main: () => Promise<void>): Promise<void> {
  // A closed pipe (`| head`) loses output, but doesn't stop the work.
  process.stdout.on("error", () => {});
  try {
    await main();
  } catch (error) {
    // Exit explicitly: the failure may have left a server running.
    process.stderr.write(`${failureLine(name, error)}\n`, () => process.exit(1));
  }
}

/** An error as one line, without API keys. */
export function failureLine(name: string, error: unknown): string {
  const [message = ""] = messageOf(error).split("\n");
  return withoutSecrets(error instanceof UsageError ? message : `${name} failed: ${message}`);
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : `${error}`;
}
