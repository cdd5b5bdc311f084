// The options that choose a command's databases: the local ones by default.

import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { matching, type OptionValues } from "../lib/command.ts";
import { type Io, UsageError } from "../lib/io.ts";
import { projectLine, shownPath, typedIn } from "../lib/line.ts";
import { type Contents, DEFAULT_STATE, databaseFile, type Target } from "./database.ts";

/** Parses a path, relative to where the command was typed: it runs in the project's folder. A file called "-" is "./-". */
function path(what: string) {
  const parse = matching(/^(?!--|-$)./, `It must name a ${what}.`);
  return (text: string) => resolve(typedIn(), parse(text));
}

export const folder = path("folder");
export const file = path("file");

/** For commands on an account; scripts/run.mjs looks for it. */
export const ALLOW_PACKAGED_NODE = {
  allowPackagedNode: {
    description:
      "let the Node of an npm package use your Cloudflare credential, if this machine's is too old",
  },
} as const;

export const TARGET_OPTIONS = {
  persistTo: {
    placeholder: "dir",
    description: "the local databases of npm start -- --persist-to DIR",
    parse: folder,
    conflicts: ["preview", "remote"],
  },
  preview: {
    placeholder: "name",
    description: "the databases that all previews share",
    parse: matching(/^[\w-]+$/, "It must name a preview, such as staging."),
    conflicts: ["remote"],
  },
  remote: { description: "the production databases" },
  ...ALLOW_PACKAGED_NODE,
} as const;

/** The databases that options choose, or else variables. Throws UsageError. */
export function readTarget(
  { env }: Io,
  { persistTo, preview, remote }: OptionValues<typeof TARGET_OPTIONS>,
): Target {
  const local = { kind: "local", state: localState(env, persistTo) } as const;
  if (remote) return { kind: "production" };
  if (preview !== undefined) return { kind: "preview", name: preview };
  if (persistTo !== undefined) return local;
  const { PETSTORE_TARGET: variable = "" } = env;
  const [, name] = /^preview:([\w-]+)$/.exec(variable) ?? [];
  if (name !== undefined) return { kind: "preview", name };
  if (variable === "remote") return { kind: "production" };
  if (variable === "" || variable === "local") return local;
  throw new UsageError("PETSTORE_TARGET must be local, remote, or preview:NAME");
}

/** The folder of local databases. */
export function localState(env: NodeJS.ProcessEnv, persistTo: string | undefined): string {
  return persistTo ?? (env.PETSTORE_PERSIST_TO ? folder(env.PETSTORE_PERSIST_TO) : DEFAULT_STATE);
}

/** The options that choose `target`, for another command line. Empty for the default. */
export function targetOptions(target: Target): string[] {
  if (target.kind === "production") return ["--remote"];
  if (target.kind === "preview") return ["--preview", target.name];
  return target.state === DEFAULT_STATE ? [] : ["--persist-to", target.state];
}

/** Says which databases a command uses. Throws if those that it needs are local and do not exist. */
export function announceTarget(io: Io, target: Target, ...needed: readonly Contents[]): void {
  io.note(`Using ${nameOf(target)}.`);
  if (target.kind !== "local") return;
  const options = targetOptions(target);
  const start = projectLine("npm start", ...(options.length === 0 ? [] : ["--", ...options]));
  for (const contents of needed)
    if (!existsSync(databaseFile(target.state, contents)))
      throw new Error(
        `there is no database of ${contents} in ${shownPath(target.state)}: create it with ${start}`,
      );
}

function nameOf(target: Target): string {
  if (target.kind === "production") return "the production databases";
  if (target.kind === "preview") return "the databases that all previews share";
  return `the local databases in ${shownPath(target.state)}`;
}
