// The options of the long tests.

import { parseArgs } from "node:util";

type Values<Defaults> = { [Name in keyof Defaults]: Defaults[Name] extends number ? number : string };

/** The options by name. One whose default is a number is a whole number from 1 on. Throws if the command line has anything else. */
export function readOptions<const Defaults extends Record<string, number | string>>(defaults: Defaults) {
  const options = Object.entries(defaults).map(
    ([name, each]) => [name, { type: "string", default: `${each}` }] as const,
  );
  const { values } = parseArgs({ options: Object.fromEntries(options) });
  const read = ([name, text]: [string, unknown]) => {
    if (typeof defaults[name] === "string") return [name, text];
    if (!/^[1-9]\d{0,14}$/.test(`${text}`)) throw new Error(`--${name} takes a whole number from 1 on`);
    return [name, Number(text)];
  };
  return Object.fromEntries(Object.entries(values).map(read)) as Values<Defaults>;
}
