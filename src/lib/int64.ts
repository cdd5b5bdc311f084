// Parses 64-bit integers to bigint. JavaScript numbers are exact only up to 2^53, so the service never uses them for an int64.

export const INT64_MIN = -(2n ** 63n);
export const INT64_MAX = 2n ** 63n - 1n;

/** A number with more digits is out of range; an exponent can give it billions, so it is never computed. */
const MAX_DIGITS = 19;

/** The int64 that `text` writes in canonical decimal (no `+`, leading zeros or `-0`); otherwise undefined. */
export function parseInt64(text: string): bigint | undefined {
  return /^(0|-?[1-9][0-9]{0,18})$/.test(text) ? inRange(text) : undefined;
}

/**
 * The int64 equal to a JSON number (RFC 8259, section 6), if there is one: `1`, `1.0`, `10e-1` and `1e0` are all 1 (JSON Schema
 * 2020-12, core, section 4.2.3), and `-0` is 0.
 */
export function int64FromJsonNumber(source: string): bigint | undefined {
  const [mantissa = "", exponent = "0"] = source.toLowerCase().split("e");
  const [whole = "", fraction = ""] = mantissa.split(".");
  const sign = whole.startsWith("-") ? "-" : "";

  // The number is `significant` times ten to the `power`.
  const digits = withoutLeadingZeros((whole + fraction).slice(sign.length));
  if (digits === "") return 0n;
  if (withoutLeadingZeros(digits.slice(MAX_DIGITS)) !== "") return undefined;
  const significant = digits.slice(0, MAX_DIGITS).replace(/0+$/, "");
  const power = Number(exponent) - fraction.length + (digits.length - significant.length);

  if (power < 0 || significant.length + power > MAX_DIGITS) return undefined;
  return inRange(sign + significant + "0".repeat(power));
}

function withoutLeadingZeros(digits: string): string {
  return digits.replace(/^0+/, "");
}

function inRange(decimal: string): bigint | undefined {
  const value = BigInt(decimal);
  return value >= INT64_MIN && value <= INT64_MAX ? value : undefined;
}
