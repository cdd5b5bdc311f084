// The options that choose a command's databases: the local ones by default.

import { type Command, Option } from "@commander-js/extra-typings";
import { matching, shellWord } from "../lib/command.ts";
import { type Contents, DEFAULT_STATE, type Target } from "./database.ts";

export interface TargetOptions {
  persistTo?: string | undefined;
  preview?: string | undefined;
  remote?: true | undefined;
}

export const folder = matching(/^(?!--)./, "It must name a folder.");

const PREVIEW = new Option("--preview <name>", "the databases that all previews share")
  .argParser(matching(/^[\w-]+$/, "It must name a preview, such as staging."))
  .conflicts("remote");
const REMOTE = new Option("--remote", "the production databases");
const PERSIST_TO = new Option("--persist-to <dir>", "the local databases of npm start -- --persist-to DIR")
  .argParser(folder)
  .conflicts(["preview", "remote"]);

export const TARGET_OPTIONS = [PERSIST_TO, PREVIEW, REMOTE];

/** Adds --preview and --remote. */
export function withRemoteOptions<Args extends unknown[], Opts extends Record<string, unknown>>(
  command: Command<Args, Opts>,
) {
  return command.addOption(PREVIEW).addOption(REMOTE);
}

/** Adds the options of every target. */
export function withTargetOptions<Args extends unknown[], Opts extends Record<string, unknown>>(
  command: Command<Args, Opts>,
) {
  return withRemoteOptions(command.addOption(PERSIST_TO));
}

export function readTarget({ persistTo, preview, remote }: TargetOptions): Target {
  if (remote) return { kind: "production" };
  if (preview !== undefined) return { kind: "preview", name: preview };
  return { kind: "local", state: persistTo ?? DEFAULT_STATE };
}

/** The options that choose `target`, to append to a command line. Empty for the default. */
export function targetOptions(target: Target): string {
  if (target.kind === "production") return " --remote";
  if (target.kind === "preview") return ` --preview ${target.name}`;
  return target.state === DEFAULT_STATE ? "" : ` --persist-to ${shellWord(target.state)}`;
}

export function describeDatabase(target: Target, contents: Contents): string {
  if (target.kind === "local") return `the database of ${contents} in ${target.state}`;
  return target.kind === "preview"
    ? `the previews' database of ${contents}`
    : `production's database of ${contents}`;
}
