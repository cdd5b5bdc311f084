// Missing in TypeScript's library: JSON.parse source text access (ECMAScript).

interface JSON {
  parse(
    text: string,
    reviver: (key: string, value: unknown, context: { source: string }) => unknown,
  ): unknown;
  rawJSON(text: string): object;
}
