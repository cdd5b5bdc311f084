// 64-bit integers as they come in: text becomes a bigint here, and only here. A JavaScript number holds
// integers up to 2^53 exactly, so an int64 is never one, on no way through the service.

export const INT64_MIN = -(2n ** 63n);
export const INT64_MAX = 2n ** 63n - 1n;

/** A number of more digits is out of range, and not worth computing: it may have thousands of millions. */
const MAX_DIGITS = 19;

/** No text is long enough to make up for an exponent of more digits. */
const MAX_EXPONENT_DIGITS = 12;

const NONZERO_DIGITS = [..."123456789"];

/**
 * The int64 that `text` writes in decimal, the one way it can be written (no sign plus, no leading zeros,
 * no -0), or undefined if it writes none.
 */
export function parseInt64(text: string): bigint | undefined {
  return /^(0|-?[1-9][0-9]{0,18})$/.test(text) ? inRange(text) : undefined;
}

/**
 * The int64 that a JSON number stands for, or undefined if it is none: `1`, `1.0`, `10e-1` and `1e0` are
 * all one (JSON Schema 2020-12, core, section 4.2.3), and `-0` is 0.
 *
 * @param source the number as RFC 8259, section 6 writes it
 */
export function int64FromJsonNumber(source: string): bigint | undefined {
  const [mantissa = "", exponent = ""] = source.toLowerCase().split("e");
  const [whole = "", fraction = ""] = mantissa.split(".");
  const sign = whole.startsWith("-") ? "-" : "";

  // Written as significant digits times a power of ten.
  const digits = fromFirstNonzero(whole + fraction);
  if (digits === "") return 0n;
  if (fromFirstNonzero(digits.slice(MAX_DIGITS)) !== "") return undefined;
  const significant = digits.slice(0, MAX_DIGITS).replace(/0+$/, "");
  const exponentSize = Number(fromFirstNonzero(exponent).slice(0, MAX_EXPONENT_DIGITS));
  const power =
    (exponent.startsWith("-") ? -exponentSize : exponentSize) -
    fraction.length +
    (digits.length - significant.length);

  if (power < 0 || significant.length + power > MAX_DIGITS) return undefined;
  return inRange(sign + significant + "0".repeat(power));
}

/** The text from its first digit 1 to 9 on. Nine plain searches are faster than a loop, and more reliably so than a regular expression. */
function fromFirstNonzero(text: string): string {
  const indexes = NONZERO_DIGITS.map((digit) => text.indexOf(digit)).filter((index) => index !== -1);
  return indexes.length === 0 ? "" : text.slice(Math.min(...indexes));
}

function inRange(decimal: string): bigint | undefined {
  const value = BigInt(decimal);
  return value >= INT64_MIN && value <= INT64_MAX ? value : undefined;
}
