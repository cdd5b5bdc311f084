// Request headers as RFC 9110 reads them, whatever the runtime leaves of them.

/**
 * The value of a header. White space around it is no part of it (RFC 9110, section 5.5), but workerd leaves it at the end of
 * what comes over a socket. A loop, because an expression that ends in `$` takes quadratic time on a row of blanks.
 */
export function requestHeader(headers: Headers, name: string): string | undefined {
  const value = headers.get(name);
  if (value === null) return undefined;
  let [start, end] = [0, value.length];
  while (start < end && isBlank(value[start])) start += 1;
  while (start < end && isBlank(value[end - 1])) end -= 1;
  return value.slice(start, end);
}

function isBlank(character: string | undefined): boolean {
  return character === " " || character === "\t";
}
