// Starts a command: node scripts/main.ts FILE [ARGUMENT...]. FILE exports the command.

import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { type Define, runCommand } from "./lib/command.ts";

const [file = "", ...args] = process.argv.slice(2);
const { default: define }: { default: Define } = await import(pathToFileURL(resolve(file)).href);
const exitCode = await runCommand(define, args, process);
process.exitCode = exitCode;
// A failure may have left a server running. The last write has to be complete.
if (exitCode !== 0) process.stderr.write("", () => process.exit(exitCode));
