// Reads named members of a JSON object (RFC 8259). The scanner checks the whole text but creates values for those members only,
// so its cost depends on the length of a body and hardly on its content. JSON.parse takes several times as long for some content,
// and hundreds of times with a reviver, which integers above 2^53 need. `npm run bench -- --only bodies` measures it.

import { isUtf8 } from "node:buffer";
import { int64FromJsonNumber } from "./int64.ts";
import * as Byte from "./json-bytes.ts";

export const MAX_LEVELS = 100;

/** Values are objects, arrays, strings, numbers, true, false and null. Names of members do not count (RFC 8259, section 3). */
export const MAX_VALUES = 1_000;

/** Longer strings are cut off. The part that is read still exceeds the length limit of every field. */
const MAX_STRING_BYTES = 4_096;

/** Not UTF-8, not JSON, or a limit is exceeded. */
export type JsonProblem = "encoding" | "syntax" | "values" | "levels";

export class JsonError extends Error {
  readonly problem: JsonProblem;

  constructor(problem: JsonProblem) {
    super(`JSON: ${problem}`);
    this.name = "JsonError";
    this.problem = problem;
  }
}

/** Bytes read after a backslash, and the padding for them: reading beyond the end of an array would slow down all later scans. */
const LONGEST_ESCAPE = 5;

const decoder = new TextDecoder();

/**
 * Reads the members with these names (ASCII letters) of the object in `text`. 64-bit integers become `bigint`. Arrays and
 * objects become empty ones, other numbers NaN, and long strings are cut off: schemas reject all of these, with their own
 * message. Throws JsonError.
 */
export function readMembers(text: Uint8Array, names: readonly string[]): unknown {
  if (!isUtf8(text)) throw new JsonError("encoding");
  return new Scanner(text, names).read();
}

class Scanner {
  readonly #bytes: Uint8Array;
  readonly #end: number;
  readonly #names: readonly string[];
  /** Start and end of each named member's value. The last of several members with the same name wins, as in JSON.parse. */
  readonly #members = new Map<string, [start: number, end: number]>();
  #at = 0;
  #values = 0;
  #levels = 0;

  constructor(text: Uint8Array, names: readonly string[]) {
    this.#bytes = new Uint8Array(text.length + LONGEST_ESCAPE);
    this.#bytes.set(text);
    this.#end = text.length;
    this.#names = names;
  }

  read(): unknown {
    // A byte order mark is ignored.
    if (this.#byteAt(0) === 0xef && this.#byteAt(1) === 0xbb && this.#byteAt(2) === 0xbf) this.#at = 3;
    this.#skipSpace();
    const start = this.#at;
    this.#skipValue();
    const end = this.#at;
    this.#skipSpace();
    if (this.#at !== this.#end) throw new JsonError("syntax");
    if (this.#byteAt(start) !== Byte.OPENING_BRACE) return this.#valueAt(start, end);
    return Object.fromEntries([...this.#members].map(([name, range]) => [name, this.#valueAt(...range)]));
  }

  #byteAt(at: number): number {
    return this.#bytes[at] ?? 0;
  }

  #skip(byte: number): void {
    if (this.#byteAt(this.#at) !== byte) throw new JsonError("syntax");
    this.#at += 1;
  }

  #skipSpace(): void {
    const bytes = this.#bytes;
    let at = this.#at;
    while (Byte.SPACE[bytes[at] ?? 0] === 1) at += 1;
    this.#at = at;
  }

  #skipValue(): void {
    this.#values += 1;
    if (this.#values > MAX_VALUES) throw new JsonError("values");
    const first = this.#byteAt(this.#at);
    if (first === Byte.QUOTE) this.#skipString();
    else if (first === Byte.OPENING_BRACE) this.#skipContainer(Byte.CLOSING_BRACE);
    else if (first === Byte.OPENING_BRACKET) this.#skipContainer(Byte.CLOSING_BRACKET);
    else if (first === Byte.LETTER_T) this.#skipWord("true");
    else if (first === Byte.LETTER_F) this.#skipWord("false");
    else if (first === Byte.LETTER_N) this.#skipWord("null");
    else this.#skipNumber();
  }

  #skipContainer(closing: number): void {
    this.#levels += 1;
    if (this.#levels > MAX_LEVELS) throw new JsonError("levels");
    this.#at += 1;
    this.#skipSpace();
    for (let isFirst = true; this.#byteAt(this.#at) !== closing; isFirst = false) {
      if (!isFirst) {
        this.#skip(Byte.COMMA);
        this.#skipSpace();
      }
      if (closing === Byte.CLOSING_BRACE) this.#skipMember();
      else this.#skipValue();
      this.#skipSpace();
    }
    this.#at += 1;
    this.#levels -= 1;
  }

  #skipMember(): void {
    const nameStart = this.#at + 1;
    this.#skipString();
    const name = this.#levels === 1 ? this.#names.find((each) => this.#spells(each, nameStart)) : undefined;
    this.#skipSpace();
    this.#skip(Byte.COLON);
    this.#skipSpace();
    const start = this.#at;
    this.#skipValue();
    if (name !== undefined) this.#members.set(name, [start, this.#at]);
  }

  #skipWord(word: string): void {
    for (let index = 0; index < word.length; index += 1) this.#skip(word.charCodeAt(index));
  }

  #skipNumber(): void {
    if (this.#byteAt(this.#at) === Byte.MINUS) this.#at += 1;
    if (this.#byteAt(this.#at) === Byte.ZERO) this.#at += 1;
    else this.#skipDigits();
    if (this.#byteAt(this.#at) === Byte.POINT) {
      this.#at += 1;
      this.#skipDigits();
    }
    if (Byte.EXPONENT[this.#byteAt(this.#at)] === 1) {
      this.#at += 1;
      if (Byte.SIGN[this.#byteAt(this.#at)] === 1) this.#at += 1;
      this.#skipDigits();
    }
  }

  #skipDigits(): void {
    const bytes = this.#bytes;
    const start = this.#at;
    let at = start;
    while (Byte.DIGIT[bytes[at] ?? 0] === 1) at += 1;
    if (at === start) throw new JsonError("syntax");
    this.#at = at;
  }

  #skipString(): void {
    this.#skip(Byte.QUOTE);
    const bytes = this.#bytes;
    let at = this.#at;
    for (;;) {
      const byte = bytes[at] ?? 0;
      if (Byte.UNESCAPED[byte] === 1) at += 1;
      else if (byte === Byte.BACKSLASH) at = this.#endOfEscape(at);
      else break;
    }
    this.#at = at;
    this.#skip(Byte.QUOTE);
  }

  /** The end of the escape that starts at `at`. */
  #endOfEscape(at: number): number {
    const bytes = this.#bytes;
    if (Byte.SHORT_ESCAPE[bytes[at + 1] ?? 0] === 1) return at + 2;
    if (bytes[at + 1] !== Byte.LETTER_U) throw new JsonError("syntax");
    const areHexDigits =
      Byte.HEX_DIGIT[bytes[at + 2] ?? 0] === 1 &&
      Byte.HEX_DIGIT[bytes[at + 3] ?? 0] === 1 &&
      Byte.HEX_DIGIT[bytes[at + 4] ?? 0] === 1 &&
      Byte.HEX_DIGIT[bytes[at + 5] ?? 0] === 1;
    if (!areHexDigits) throw new JsonError("syntax");
    return at + 6;
  }

  /** Whether the string at `start` is `name`. Its letters may be escaped: `\u006e`. */
  #spells(name: string, start: number): boolean {
    const bytes = this.#bytes;
    let at = start;
    for (let index = 0; index < name.length; index += 1) {
      let code = bytes[at] ?? 0;
      at += 1;
      if (code === Byte.BACKSLASH) {
        if (bytes[at] !== Byte.LETTER_U || bytes[at + 1] !== Byte.ZERO || bytes[at + 2] !== Byte.ZERO)
          return false;
        code = 16 * hexValue(bytes[at + 3] ?? 0) + hexValue(bytes[at + 4] ?? 0);
        at += 5;
      }
      if (code !== name.charCodeAt(index)) return false;
    }
    return bytes[at] === Byte.QUOTE;
  }

  #valueAt(start: number, end: number): unknown {
    const first = this.#byteAt(start);
    if (first === Byte.OPENING_BRACE) return {};
    if (first === Byte.OPENING_BRACKET) return [];
    if (first === Byte.QUOTE) return this.#stringAt(start, end);
    const text = this.#text(start, end);
    const isNumber = first === Byte.MINUS || Byte.DIGIT[first] === 1;
    return isNumber ? (int64FromJsonNumber(text) ?? Number.NaN) : JSON.parse(text);
  }

  #stringAt(start: number, end: number): string {
    let last = end - 1;
    if (end - start > MAX_STRING_BYTES) {
      last = start + 1;
      while (last < start + MAX_STRING_BYTES) {
        last = this.#byteAt(last) === Byte.BACKSLASH ? this.#endOfEscape(last) : last + 1;
      }
    }
    return JSON.parse(`${this.#text(start, last)}"`);
  }

  #text(start: number, end: number): string {
    return decoder.decode(this.#bytes.subarray(start, end));
  }
}

/** `A` and `a` both have 1 in their low four bits. */
function hexValue(digit: number): number {
  return digit < 0x40 ? digit - Byte.ZERO : (digit & 15) + 9;
}
