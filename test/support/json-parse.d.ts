// TypeScript's library does not know the reviver's third argument yet (ECMAScript, JSON.parse source text access).

interface JSON {
  parse(
    text: string,
    reviver: (key: string, value: unknown, context: { source?: string }) => unknown,
  ): unknown;
}
