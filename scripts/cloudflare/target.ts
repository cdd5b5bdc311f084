// The options that choose a command's databases: the local ones by default.

import { resolve } from "node:path";
import { matching, type OptionValues } from "../lib/command.ts";
import { type Io, UsageError } from "../lib/io.ts";
import { shownPath, typedIn } from "../lib/line.ts";
import { DEFAULT_STATE, type Target } from "./database.ts";

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
  if (remote) return { kind: "production" };
  if (preview !== undefined) return { kind: "preview", name: preview };
  const variable = persistTo === undefined ? (env.PETSTORE_TARGET ?? "local") : "local";
  const [, name] = /^preview:([\w-]+)$/.exec(variable) ?? [];
  if (name !== undefined) return { kind: "preview", name };
  if (variable === "remote") return { kind: "production" };
  if (variable === "local") return { kind: "local", state: localState(env, persistTo) };
  throw new UsageError(
    `PETSTORE_TARGET is ${JSON.stringify(variable)}: it must be local, remote, or preview:NAME`,
  );
}

/** The folder of local databases. Throws UsageError for a variable that is empty, because what was to be its value is not known. */
export function localState(env: NodeJS.ProcessEnv, persistTo: string | undefined): string {
  const { PETSTORE_PERSIST_TO: variable } = env;
  if (persistTo !== undefined || variable === undefined) return persistTo ?? DEFAULT_STATE;
  try {
    return folder(variable);
  } catch {
    throw new UsageError(`PETSTORE_PERSIST_TO is ${JSON.stringify(variable)}: it must name a folder`);
  }
}

/** Says which databases a command uses. */
export function announceTarget(io: Io, target: Target): void {
  io.note(`Using ${targetName(target)}.`);
}

export function targetName(target: Target): string {
  if (target.kind === "production") return "the production databases";
  if (target.kind === "preview") return "the databases that all previews share";
  return `the local databases in ${shownPath(target.state)}`;
}
