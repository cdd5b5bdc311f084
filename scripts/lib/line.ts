// Command lines to paste, in messages: quoted for a shell, and right in the folder in which the running command was typed.

import { join, resolve } from "node:path";

const PROJECT = resolve(import.meta.dirname, "../..");

/** The folder in which the command was typed: scripts/run.mjs runs it in the project's. */
export function typedIn(): string {
  return process.env.INIT_CWD ?? process.cwd();
}

/** A path of the project as the folder where the command was typed needs it. */
export function shownPath(path: string): string {
  return typedIn() === PROJECT ? path : resolve(PROJECT, path);
}

/** A line of this command line, such as `./petstore keys rotate ID`. Only the words that follow `command` are quoted. */
export function petstoreLine(command = "", ...words: string[]): string {
  const isHere = typedIn() === PROJECT;
  const script = process.platform === "win32" ? "petstore" : "./petstore";
  const program = isHere ? script : shellWord(join(PROJECT, "petstore"));
  const prefix = process.platform === "win32" ? "node " : "";
  return `${prefix}${[program, ...(command === "" ? [] : [command]), ...words.map(shellWord)].join(" ")}`;
}

/** A line that works only in the project's folder, such as `npm start`. Only the words that follow `command` are quoted. */
export function projectLine(command: string, ...words: string[]): string {
  const folder = typedIn() === PROJECT ? "" : `cd ${shellWord(PROJECT)} && `;
  return folder + [command, ...words.map(shellWord)].join(" ");
}

/** A word of a shell's command line. */
export function shellWord(text: string): string {
  return /^[\w./:@=-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
