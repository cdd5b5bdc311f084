// TypeScript's library lacks JSON.rawJSON and the reviver's third argument (ECMAScript, JSON.parse source text access).

interface JSON {
  parse(
    text: string,
    reviver: (key: string, value: unknown, context: { source?: string }) => unknown,
  ): unknown;
  rawJSON(text: string): object;
}
