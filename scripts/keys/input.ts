// What commands on keys read from standard input: IDs, and a secret, which is never an argument.

import { createInterface } from "node:readline/promises";
import { Writable } from "node:stream";
import { text } from "node:stream/consumers";
import { withoutSecrets } from "../../src/keys/secret.ts";
import { SECRET_LENGTH, SECRET_PREFIX } from "../../src/keys/secret-format.ts";
import { type Io, messageOf, UsageError } from "../lib/io.ts";
import { keyId } from "./options.ts";
import { printable } from "./text.ts";

/** The IDs on standard input, one a line, each once. Throws UsageError if a line is something else, or if there is none. */
export async function readIds(io: Io): Promise<string[]> {
  const lines = (await text(io.stdin)).split("\n").map((line) => line.trim());
  const ids = lines.flatMap((line, index) => {
    if (line === "") return [];
    try {
      return [keyId(line)];
    } catch (error) {
      const shown = printable(withoutSecrets(line), 40);
      throw new UsageError(
        `line ${index + 1} of standard input is no ID, and nothing was changed: ${shown}. ${messageOf(error)}`,
      );
    }
  });
  if (ids.length === 0) throw new UsageError("standard input has no IDs");
  return [...new Set(ids)];
}

/** A secret on standard input, also within other text, such as a header. A terminal does not show it. */
export async function readSecret(io: Io): Promise<string> {
  const typed = await readText(io);
  const [secret = typed, ...others] = typed.match(SECRET) ?? [];
  return others.length === 0 ? secret : typed;
}

const SECRET = new RegExp(`\\b${SECRET_PREFIX}[0-9A-Za-z]{${SECRET_LENGTH}}\\b`, "g");

async function readText(io: Io): Promise<string> {
  if (!io.stdin.isTTY) return (await text(io.stdin)).trim();
  const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() });
  const terminal = createInterface({ input: io.stdin, output: nowhere, terminal: true });
  // From here on the terminal does not show what is typed.
  io.stderr.write("API key (it is not shown): ");
  // At the end of the input, the question is never answered.
  const closed = new Promise<string>((resolve) => terminal.once("close", () => resolve("")));
  const answer = await Promise.race([terminal.question(""), closed]);
  terminal.close();
  io.note("");
  return answer.trim();
}
