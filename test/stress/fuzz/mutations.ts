// Random changes of a text.

import fc from "fast-check";

const BYTE = fc.nat(255).map((code) => String.fromCharCode(code));

/** What parsers of HTTP, URLs and JSON treat specially. */
const TOKENS =
  words(`, ; : = & && ? # / // /.. .. %00 %ff %zz %2e%2e%2f * \\ " ' < > { } [ ] ( ) null true NaN 0 00 - -0 +1 .5 1. 01
  0x1 1e1 1e400 1.5 \\u0000 \\ud800 \\x __proto__ constructor "a":1, \0 \x01 \x0b \x7f \xff \xc0\x80 \xed\xa0\x80 \xf4\x90\x80\x80 \xe2\x82`);

const INSERTED = fc.oneof(BYTE, fc.constantFrom("", " ", "\t", "\n", "\r\n", "\r\n\r\n", ...TOKENS));

const CHANGE = fc.record({ at: fc.nat(), removed: fc.constantFrom(0, 0, 1, 1, 5), inserted: INSERTED });

/** Texts with one or two changes, at any place. */
export function mutated(texts: fc.Arbitrary<string>): fc.Arbitrary<string> {
  return fc.tuple(texts, fc.array(CHANGE, { minLength: 1, maxLength: 2 })).map(([text, changes]) =>
    changes.reduce((from, { at, removed, inserted }) => {
      const place = at % (from.length + 1);
      return from.slice(0, place) + inserted + from.slice(place + removed);
    }, text),
  );
}

/** The words of a text. */
export function words(text: string): string[] {
  return text.trim().split(/[ \n]+/);
}
