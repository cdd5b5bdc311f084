// The options of the long tests.

import { parseArgs } from "node:util";

type Values<Defaults> = { [Name in keyof Defaults]: Defaults[Name] extends number ? number : string };

/**
 * The options by name, with their defaults. An option is a whole number if its default is a number. Ends this process with 2 if the
 * command line has anything else.
 */
export function readOptions<const Defaults extends Record<string, number | string>>(defaults: Defaults) {
  const names = Object.keys(defaults);
  try {
    const { values } = parseArgs({
      options: Object.fromEntries(names.map((name) => [name, { type: "string" }])),
    });
    const given = Object.entries(values).map(([name, text]) => {
      if (typeof defaults[name] === "string") return [name, text];
      if (!/^\d{1,15}$/.test(`${text}`)) throw new Error(`--${name} takes a whole number`);
      return [name, Number(text)];
    });
    return { ...defaults, ...Object.fromEntries(given) } as Values<Defaults>;
  } catch (error) {
    console.error((error as Error).message);
    process.exit(2);
  }
}
