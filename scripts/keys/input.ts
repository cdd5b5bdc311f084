// What commands on keys read from standard input: IDs, and a secret, which is never an argument.

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
  const typed = io.stdin.isTTY
    ? await io.ask("API key (it is not shown): ", { isHidden: true })
    : (await text(io.stdin)).trim();
  const [secret = typed, ...others] = typed.match(SECRET) ?? [];
  return others.length === 0 ? secret : typed;
}

const SECRET = new RegExp(`\\b${SECRET_PREFIX}[0-9A-Za-z]{${SECRET_LENGTH}}\\b`, "g");
