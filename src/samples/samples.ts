// A program of an operation in each of three languages. The document has them with its examples, the page with the values, the address and
// the key of the reader. A test runs them.

import { VERSION } from "../../client/src/version.ts";
import { type Input, literal, type Operation, requestOf, type Values } from "./operation.ts";

/** What the samples of the published document have as address and key. */
export const PLACEHOLDERS = { origin: "https://petstore.example", key: "YOUR_API_KEY" };

/** The address and the key in a program. */
interface Caller {
  origin: string;
  key: string;
}

const WRITERS = { curl, TypeScript: typeScript, Python: python };

export type Language = keyof typeof WRITERS;

export const LANGUAGES = Object.keys(WRITERS) as Language[];

/** The program. Required inputs without a value have that of the example. */
export function sampleOf(operation: Operation, language: Language, caller: Caller, values: Values): string {
  const missing = operation.inputs.filter(({ name, isRequired }) => isRequired && !values[name]);
  const examples = Object.fromEntries(missing.map(({ name, example }) => [name, example]));
  return WRITERS[language](operation, caller, { ...values, ...examples });
}

function curl(operation: Operation, { origin, key }: Caller, values: Values): string {
  const { method, url, headers, body } = requestOf(operation, origin, values);
  const lines = [
    `curl -i ${inShell(url)}`,
    `-H ${inShell(`Authorization: Bearer ${key}`)}`,
    ...Object.entries(headers).map(([name, value]) => `-H ${inShell(`${name}: ${value}`)}`),
  ];
  if (body !== undefined) lines.push(`-d ${inShell(body)}`);
  // What curl sends with these options otherwise.
  if (method !== (body === undefined ? "GET" : "POST")) lines.push(`-X ${method}`);
  // Without the note: not every shell takes comments that are pasted.
  return lines.join(" \\\n  ");
}

function typeScript(operation: Operation, { origin, key }: Caller, values: Values): string {
  const given = operation.inputs.filter(({ name }) => values[name]);
  const value = (input: Input) => `${literal(input, values[input.name] ?? "")}${isInt64(input) ? "n" : ""}`;
  const part = (place: Input["place"]) => given.filter((input) => input.place === place);
  const object = (inputs: Input[]) =>
    `{ ${inputs.map((input) => `${nameIn(input)}: ${value(input)}`).join(", ")} }`;
  const others = [...part("query"), ...part("body")];
  const keys = part("header").filter(isOption);
  const headers = part("header").filter((input) => !isOption(input));
  const options = [
    ...keys.map((input) => `idempotencyKey: ${value(input)}`),
    ...(headers.length > 0 ? [`headers: ${object(headers)}`] : []),
  ];
  const takesObject = operation.inputs.some(({ place }) => place === "query" || place === "body");
  const list = [
    ...part("path").map(value),
    ...(takesObject ? [others.length > 0 ? object(others) : "{}"] : []),
  ];
  if (options.length > 0) list.push(`{ ${options.join(", ")} }`);
  const call = `${operation.call}(${list.join(", ").replace(/^\{\}$/, "")})`;
  return `// npm install ${origin}/petstore-client-${VERSION}.tgz
import { Petstore } from "petstore-client";

const petstore = new Petstore({ apiKey: ${JSON.stringify(key)}, baseURL: "${origin}" });
${withNote("//", operation, `const ${operation.result} = await petstore.${call};`)}
console.log(${operation.result});`;
}

function python(operation: Operation, { origin, key }: Caller, values: Values): string {
  const { method, url, headers, body } = requestOf(operation, origin, values);
  const { "Content-Type": _, ...others } = headers;
  const all = Object.entries({ Authorization: `Bearer ${key}`, ...others });
  const pairs = all.map(([name, value]) => `${JSON.stringify(name)}: ${JSON.stringify(value)}`);
  const lines = [`"${url}"`, `headers={${pairs.join(", ")}}`, body && `json=${body}`, "timeout=10"];
  return `import requests

${withNote("#", operation, `response = requests.${method.toLowerCase()}(`)}
    ${lines.filter(Boolean).join(",\n    ")},
)
print(response.text)
response.raise_for_status()`;
}

const isInt64 = ({ range }: Input) => range !== undefined && !Number.isSafeInteger(Number(range[1]));

/** The client has an option of its own for this header. */
const isOption = ({ name }: Input) => name === "Idempotency-Key";

const nameIn = ({ name }: Input) => (/^\w+$/.test(name) ? name : JSON.stringify(name));

function withNote(mark: string, { note }: Operation, code: string): string {
  return note === undefined ? code : `${mark} ${note}\n${code}`;
}

/** A word of a POSIX shell. */
function inShell(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
