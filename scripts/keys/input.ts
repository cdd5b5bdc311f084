// What commands on keys read from standard input: IDs, and secrets, which are never arguments.

import { text } from "node:stream/consumers";
import { ID_PREFIX, keyIdOf, withoutSecrets } from "../../src/keys/secret.ts";
import { ID_LENGTH, SECRET_LENGTH, SECRET_PREFIX } from "../../src/keys/secret-format.ts";
import { type Io, messageOf, UsageError } from "../lib/io.ts";
import { petstoreLine } from "../lib/line.ts";
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

/** What looks like a secret: the ID that it names, and the secret if it is whole and its checksum is right. */
export interface FoundSecret {
  line: number;
  id: string;
  secret: string | undefined;
}

/**
 * The secrets on standard input, each once, also within other text, such as a header. A terminal is asked for one, and does not show it.
 * Throws UsageError if there is none. `where`: the options that choose the database.
 */
export async function readSecrets(io: Io, where: string[]): Promise<FoundSecret[]> {
  const typed = io.stdin.isTTY
    ? await io.ask("API key (it is not shown): ", { isHidden: true })
    : await text(io.stdin);
  const found = new Map<string, FoundSecret>();
  for (const [index, line] of typed.split("\n").entries())
    for (const [word = "", body = ""] of line.matchAll(LIKE_SECRET)) {
      const id = keyIdOf(word);
      const named = id ?? `${ID_PREFIX}${body.slice(0, ID_LENGTH)}`;
      if (!found.has(word))
        found.set(word, { line: index + 1, id: named, secret: id === undefined ? undefined : word });
    }
  if (found.size > 0) return [...found.values()];
  if (typed.trim() === "") throw new UsageError("standard input is empty");
  const [id] = typed.match(LIKE_ID) ?? [];
  throw new UsageError(
    id === undefined
      ? `this is not an API key, which is ${SECRET_PREFIX} and ${SECRET_LENGTH} letters and digits; if only its last four are known: ${petstoreLine("keys list --search CHARS", ...where)}`
      : `this is the ID of a key, not the key itself: ${petstoreLine("keys show", id, ...where)}`,
  );
}

const LIKE_ID = new RegExp(`\\b${ID_PREFIX}[0-9A-Za-z]{${ID_LENGTH}}\\b`);
/** What ends in a letter or digit, but is an escape in a URL or in JSON. */
const ESCAPE = "%[0-9A-Fa-f]{2}|\\\\[bfnrt]|\\\\u[0-9A-Fa-f]{4}";
/** The beginning of a secret that has its ID, or more. */
const LIKE_SECRET = new RegExp(
  `(?:(?<![0-9A-Za-z])|(?<=${ESCAPE}))${SECRET_PREFIX}([0-9A-Za-z]{${ID_LENGTH},})`,
  "g",
);
