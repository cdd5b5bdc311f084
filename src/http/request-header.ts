/**
 * The value of a header without surrounding white space (RFC 9110, section 5.5): workerd keeps trailing blanks. It loops because
 * a regular expression that ends in `$` takes quadratic time on a run of blanks, and `trim` removes other characters too.
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
