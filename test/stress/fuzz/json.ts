// JSON with exact integers: they are bigint, because JSON.parse would round those beyond 2^53. Other numbers stay numbers.

/** Parses a request: an integer may have any notation (JSON Schema 2020-12, core, section 4.2.3), such as `1.0` or `10e-1`. */
export function parseRequest(text: string): unknown {
  return parse(text, integerOf);
}

/** Parses a response: an integer has only digits. */
export function parseResponse(text: string): unknown {
  return parse(text, (source) => (/^(0|-?[1-9]\d*)$/.test(source) ? BigInt(source) : undefined));
}

function parse(text: string, toInteger: (source: string) => bigint | undefined): unknown {
  return JSON.parse(text, (_name, value, { source = "" }) =>
    typeof value === "number" ? (toInteger(source) ?? value) : value,
  );
}

/** The integer that a JSON number is equal to, if any. */
function integerOf(source: string): bigint | undefined {
  const [, whole = "", fraction = "", exponent = "0"] = source.match(/^(-?\d+)\.?(\d*)e?(.*)$/i) ?? [];
  const digits = whole + fraction;
  if (/^-?0+$/.test(digits)) return 0n;
  const zeros = Number(exponent || 0) - fraction.length;
  // Integers with more zeros than this are out of every range.
  if (zeros >= 0) return BigInt(digits) * 10n ** BigInt(Math.min(zeros, 1000));
  return /^0+$/.test(digits.slice(zeros)) ? BigInt(digits.slice(0, zeros)) : undefined;
}

/** The JSON text of a value. */
export function exactJson(value: unknown): string {
  return (
    JSON.stringify(value, (_name, each) => (typeof each === "bigint" ? JSON.rawJSON(`${each}`) : each)) ??
    "nothing"
  );
}
