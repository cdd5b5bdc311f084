// The options that choose a command's database: the local one by default.

import { UsageError } from "../lib/command.ts";
import { DEFAULT_STATE, type Target } from "./database.ts";

/** For `parseArgs`. */
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

export function readTarget({ "persist-to": state, preview, remote }: TargetValues): Target {
  if ([state, preview, remote].filter((value) => value !== undefined).length > 1) {
    throw new UsageError("--persist-to, --preview and --remote are mutually exclusive");
  }
  if (remote) return { kind: "production" };
  if (preview !== undefined) {
    if (!/^[\w-]+$/.test(preview)) throw new UsageError("--preview must name a preview, such as staging");
    return { kind: "preview", name: preview };
  }
  if (state === "") throw new UsageError("--persist-to must name a folder");
  return { kind: "local", state: state ?? DEFAULT_STATE };
}

/** The options that choose `target`, to append to a command line. Empty for the default. */
export function targetOptions(target: Target): string {
  if (target.kind === "production") return " --remote";
  if (target.kind === "preview") return ` --preview ${target.name}`;
  const { state } = target;
  if (state === DEFAULT_STATE) return "";
  return ` --persist-to ${/^[\w./-]+$/.test(state) ? state : `'${state.replaceAll("'", "'\\''")}'`}`;
}
