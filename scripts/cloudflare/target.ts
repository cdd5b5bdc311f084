// Which database a command works on: the local one unless it is told otherwise. Wrong arguments are UsageErrors here as
// everywhere: one line that says what to do.

import { withoutSecrets } from "../../src/keys/secret.ts";
import { DEFAULT_STATE, type Target } from "./database.ts";

/** A wrong use: what to tell whoever made it. */
export class UsageError extends Error {}

/** What a command that has a target takes, for `parseArgs`. */
export const TARGET_OPTIONS = {
  "persist-to": { type: "string" },
  preview: { type: "string" },
  remote: { type: "boolean" },
} as const;

interface TargetValues {
  "persist-to"?: string | undefined;
  preview?: string | undefined;
  remote?: boolean | undefined;
}

/** The target that the arguments name. */
export function readTarget({ "persist-to": state, preview, remote }: TargetValues): Target {
  if ([state, preview, remote].filter((each) => each !== undefined).length > 1) {
    throw new UsageError("--persist-to, --preview and --remote name different databases: give one of them");
  }
  if (remote) return { kind: "production" };
  if (preview !== undefined) {
    if (!/^[\w-]+$/.test(preview)) throw new UsageError("--preview must name a preview, such as staging");
    return { kind: "preview", name: preview };
  }
  if (state === "") throw new UsageError("--persist-to must name a folder");
  return { kind: "local", state: state ?? DEFAULT_STATE };
}

/** How a command names its target, to be put behind another command: nothing for the one it takes by itself. */
export function targetWords(target: Target): string {
  if (target.kind === "production") return " --remote";
  return target.kind === "preview" ? ` --preview ${target.name}` : persistTo(target.state);
}

/** The same for the folder of a local one. */
export function persistTo(state: string): string {
  if (state === DEFAULT_STATE) return "";
  return ` --persist-to ${/^[\w./-]+$/.test(state) ? state : `'${state.replaceAll("'", "'\\''")}'`}`;
}

/** Writes a line to standard output. */
export function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

/** Runs a command; whatever it throws becomes exit code 1 and one line on standard error. */
export async function runCommand(name: string, main: () => Promise<void>): Promise<void> {
  // Whoever reads no further (`| head`) misses news, and nothing else: what was begun is finished.
  process.stdout.on("error", () => {});
  try {
    await main();
  } catch (error) {
    // What failed may have left a server running that nobody can close any more.
    process.stderr.write(`${failureLine(name, error)}\n`, () => process.exit(1));
  }
}

/** What a command says of an error: one line, without a key in it. */
export function failureLine(name: string, error: unknown): string {
  const [message = ""] = `${error instanceof Error ? error.message : error}`.split("\n");
  return withoutSecrets(error instanceof UsageError ? message : `${name} failed: ${message}`);
}
