// An operation as the console knows it: its inputs, and what follows from the texts that are filled in. The build takes it from the
// document. It imports only texts, because the pages and the document share it.

import { FIELD_PROBLEMS } from "../http/messages.ts";

/** An input of an operation: a parameter, or a field of the body. Names are unique within an operation. */
export interface Input {
  name: string;
  place: "path" | "query" | "header" | "body";
  isRequired: boolean;
  type: "string" | "integer";
  /** Of an integer: the first and the last one, in decimal. */
  range?: [string, string];
  /** Of a string: the most code points, a regular expression, and what is wrong with a text that it does not match. */
  maxLength?: number;
  pattern?: string;
  problem?: string;
  /** The values that a string can have, if they are few. */
  choices?: string[];
  example: string;
}

export interface Operation {
  id: string;
  method: string;
  /** Under the origin, with `{name}` for each input in the path. */
  path: string;
  inputs: Input[];
  /** The method of the client, and what it returns. */
  call: string;
  result: string;
  /** What a program should know, for its comment. */
  note?: string;
  /** What a successful response is. */
  success: string;
}

/** What the user has filled in, by input. An empty text is no value. */
export type Values = Record<string, string>;

export interface Request {
  method: string;
  url: string;
  headers: Record<string, string>;
  body?: string;
}

/** What is wrong with the text of an input, in the words of the service; empty if it can be sent. */
export function problemWith(input: Input, text: string): string {
  const { type, range, maxLength = Infinity, pattern = "" } = input;
  if (text === "") return input.isRequired ? FIELD_PROBLEMS.required : "";
  if (type === "integer") {
    const [first = "", last = ""] = range ?? [];
    const isInside =
      /^(0|-?[1-9]\d*)$/.test(text) && BigInt(text) >= BigInt(first) && BigInt(text) <= BigInt(last);
    return isInside ? "" : (input.problem ?? `must be an integer from ${first} to ${last}`);
  }
  if ([...text].length > maxLength) return FIELD_PROBLEMS.length(maxLength);
  const isFit = text.isWellFormed() && new RegExp(pattern, "u").test(text);
  return isFit ? "" : (input.problem ?? FIELD_PROBLEMS.unicode);
}

/** The request with these values, without the key. Inputs without a value are left out; in the path, they would stay as `{name}`. */
export function requestOf({ method, path, inputs }: Operation, origin: string, values: Values): Request {
  const given = (place: Input["place"]) =>
    inputs.filter((input) => input.place === place && (values[input.name] ?? "") !== "");
  const pairs = (place: Input["place"]) => given(place).map(({ name }) => [name, values[name] ?? ""]);
  const filled = path.replace(/\{(\w+)\}/g, (all, name) => encodeURIComponent(values[name] || all));
  const query = `${new URLSearchParams(pairs("query"))}`;
  const headers: Record<string, string> = Object.fromEntries(pairs("header"));
  // fetch does not convert all methods.
  const request = { method: method.toUpperCase(), url: `${origin}${filled}${query && `?${query}`}`, headers };
  if (!inputs.some(({ place }) => place === "body")) return request;
  const fields = given("body").map((input) => `"${input.name}": ${literal(input, values[input.name] ?? "")}`);
  return {
    ...request,
    headers: { ...headers, "Content-Type": "application/json" },
    body: `{${fields.join(", ")}}`,
  };
}

/** A value in JSON, and in programs. Integers keep their digits. */
export function literal({ type }: Input, text: string): string {
  return type === "integer" ? text : JSON.stringify(text);
}
