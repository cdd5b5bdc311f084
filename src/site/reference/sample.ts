// Fills the reader's address and API key into a code sample. It imports nothing, because the page and the document share it.

/** What the samples of the published document contain instead. */
export const PLACEHOLDERS = { origin: "https://petstore.example", key: "YOUR_API_KEY" };

/** Neither addresses nor keys have these. Each sample would have to escape them in its own way. */
const NEEDS_QUOTING = /[\s"'`$\\]/;

/** Replaces the placeholders. One without a usable value stays. */
export function fillSample(source: string, values: { origin?: string; key?: string }): string {
  const fillIn = (text: string, placeholder: string, value = "") =>
    value === "" || NEEDS_QUOTING.test(value) ? text : text.replaceAll(placeholder, value);
  return fillIn(fillIn(source, PLACEHOLDERS.origin, values.origin), PLACEHOLDERS.key, values.key);
}
