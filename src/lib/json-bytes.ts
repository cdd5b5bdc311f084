// The bytes of JSON text (RFC 8259), and classes of them. The scanner reads a 0 behind the end of the text; it is in no class.

export const QUOTE = 0x22;
export const COMMA = 0x2c;
export const MINUS = 0x2d;
export const POINT = 0x2e;
export const ZERO = 0x30;
export const COLON = 0x3a;
export const OPENING_BRACKET = 0x5b;
export const BACKSLASH = 0x5c;
export const CLOSING_BRACKET = 0x5d;
export const LETTER_F = 0x66;
export const LETTER_N = 0x6e;
export const LETTER_T = 0x74;
export const LETTER_U = 0x75;
export const OPENING_BRACE = 0x7b;
export const CLOSING_BRACE = 0x7d;

export const SPACE = bytesOf(" \t\n\r");
export const DIGIT = bytesOf("0123456789");
export const HEX_DIGIT = bytesOf("0123456789abcdefABCDEF");
export const EXPONENT = bytesOf("eE");
export const SIGN = bytesOf("+-");
export const SHORT_ESCAPE = bytesOf('"\\/bfnrt');
export const UNESCAPED = new Uint8Array(256).fill(1, 0x20);
UNESCAPED[QUOTE] = 0;
UNESCAPED[BACKSLASH] = 0;

function bytesOf(characters: string): Uint8Array {
  const kind = new Uint8Array(256);
  for (const byte of new TextEncoder().encode(characters)) kind[byte] = 1;
  return kind;
}
