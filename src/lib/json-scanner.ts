// Reads named members of a JSON object (RFC 8259). The scanner checks the whole text but creates values for those members only,
// so its cost depends on the length of a body and hardly on its content. JSON.parse takes several times as long for some content,
// and hundreds of times with a reviver, which integers above 2^53 need. `npm run bench -- --only bodies` measures it.

import { isUtf8 } from "node:buffer";
import { int64FromJsonNumber } from "./int64.ts";

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

const QUOTE = 0x22;
const COMMA = 0x2c;
const MINUS = 0x2d;
const POINT = 0x2e;
const ZERO = 0x30;
const COLON = 0x3a;
const OPENING_BRACKET = 0x5b;
const BACKSLASH = 0x5c;
const CLOSING_BRACKET = 0x5d;
const LETTER_F = 0x66;
const LETTER_N = 0x6e;
const LETTER_T = 0x74;
const LETTER_U = 0x75;
const OPENING_BRACE = 0x7b;
const CLOSING_BRACE = 0x7d;

// Classes of bytes. The zeros after the end of the text are in none of them.
const SPACE = bytesOf(" \t\n\r");
const DIGIT = bytesOf("0123456789");
const HEX_DIGIT = bytesOf("0123456789abcdefABCDEF");
const EXPONENT = bytesOf("eE");
const SIGN = bytesOf("+-");
const SHORT_ESCAPE = bytesOf('"\\/bfnrt');
const UNESCAPED = new Uint8Array(256).fill(1, 0x20);
UNESCAPED[QUOTE] = 0;
UNESCAPED[BACKSLASH] = 0;

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
    if (this.#byteAt(start) !== OPENING_BRACE) return this.#valueAt(start, end);
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
    while (SPACE[bytes[at] ?? 0] === 1) at += 1;
    this.#at = at;
  }

  #skipValue(): void {
    this.#values += 1;
    if (this.#values > MAX_VALUES) throw new JsonError("values");
    const first = this.#byteAt(this.#at);
    if (first === QUOTE) this.#skipString();
    else if (first === OPENING_BRACE) this.#skipContainer(CLOSING_BRACE);
    else if (first === OPENING_BRACKET) this.#skipContainer(CLOSING_BRACKET);
    else if (first === LETTER_T) this.#skipWord("true");
    else if (first === LETTER_F) this.#skipWord("false");
    else if (first === LETTER_N) this.#skipWord("null");
    else this.#skipNumber();
  }

  #skipContainer(closing: number): void {
    this.#levels += 1;
    if (this.#levels > MAX_LEVELS) throw new JsonError("levels");
    this.#at += 1;
    this.#skipSpace();
    for (let isFirst = true; this.#byteAt(this.#at) !== closing; isFirst = false) {
      if (!isFirst) {
        this.#skip(COMMA);
        this.#skipSpace();
      }
      if (closing === CLOSING_BRACE) this.#skipMember();
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
    this.#skip(COLON);
    this.#skipSpace();
    const start = this.#at;
    this.#skipValue();
    if (name !== undefined) this.#members.set(name, [start, this.#at]);
  }

  #skipWord(word: string): void {
    for (let index = 0; index < word.length; index += 1) this.#skip(word.charCodeAt(index));
  }

  #skipNumber(): void {
    if (this.#byteAt(this.#at) === MINUS) this.#at += 1;
    if (this.#byteAt(this.#at) === ZERO) this.#at += 1;
    else this.#skipDigits();
    if (this.#byteAt(this.#at) === POINT) {
      this.#at += 1;
      this.#skipDigits();
    }
    if (EXPONENT[this.#byteAt(this.#at)] === 1) {
      this.#at += 1;
      if (SIGN[this.#byteAt(this.#at)] === 1) this.#at += 1;
      this.#skipDigits();
    }
  }

  #skipDigits(): void {
    const bytes = this.#bytes;
    const start = this.#at;
    let at = start;
    while (DIGIT[bytes[at] ?? 0] === 1) at += 1;
    if (at === start) throw new JsonError("syntax");
    this.#at = at;
  }

  #skipString(): void {
    this.#skip(QUOTE);
    const bytes = this.#bytes;
    let at = this.#at;
    for (;;) {
      const byte = bytes[at] ?? 0;
      if (UNESCAPED[byte] === 1) at += 1;
      else if (byte === BACKSLASH) at = this.#endOfEscape(at);
      else break;
    }
    this.#at = at;
    this.#skip(QUOTE);
  }

  /** The end of the escape that starts at `at`. */
  #endOfEscape(at: number): number {
    const bytes = this.#bytes;
    if (SHORT_ESCAPE[bytes[at + 1] ?? 0] === 1) return at + 2;
    if (bytes[at + 1] !== LETTER_U) throw new JsonError("syntax");
    const areHexDigits =
      HEX_DIGIT[bytes[at + 2] ?? 0] === 1 &&
      HEX_DIGIT[bytes[at + 3] ?? 0] === 1 &&
      HEX_DIGIT[bytes[at + 4] ?? 0] === 1 &&
      HEX_DIGIT[bytes[at + 5] ?? 0] === 1;
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
      if (code === BACKSLASH) {
        if (bytes[at] !== LETTER_U || bytes[at + 1] !== ZERO || bytes[at + 2] !== ZERO) return false;
        code = 16 * hexValue(bytes[at + 3] ?? 0) + hexValue(bytes[at + 4] ?? 0);
        at += 5;
      }
      if (code !== name.charCodeAt(index)) return false;
    }
    return bytes[at] === QUOTE;
  }

  #valueAt(start: number, end: number): unknown {
    const first = this.#byteAt(start);
    if (first === OPENING_BRACE) return {};
    if (first === OPENING_BRACKET) return [];
    if (first === QUOTE) return this.#stringAt(start, end);
    const text = this.#text(start, end);
    const isNumber = first === MINUS || DIGIT[first] === 1;
    return isNumber ? (int64FromJsonNumber(text) ?? Number.NaN) : JSON.parse(text);
  }

  #stringAt(start: number, end: number): string {
    let last = end - 1;
    if (end - start > MAX_STRING_BYTES) {
      last = start + 1;
      while (last < start + MAX_STRING_BYTES) {
        last = this.#byteAt(last) === BACKSLASH ? this.#endOfEscape(last) : last + 1;
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
  return digit < 0x40 ? digit - ZERO : (digit & 15) + 9;
}

function bytesOf(characters: string): Uint8Array {
  const kind = new Uint8Array(256);
  for (const byte of new TextEncoder().encode(characters)) kind[byte] = 1;
  return kind;
}
