// The options of the long tests.

import { parseArgs } from "node:util";

type Values<Defaults> = { [Name in keyof Defaults]: Defaults[Name] extends number ? number : string };

/**
 * The options by name. One whose default is a number is a whole number from 1 on. Ends this process with 2 if the command line has
 * anything else.
 */
export function readOptions<const Defaults extends Record<string, number | string>>(defaults: Defaults) {
  const names = Object.keys(defaults);
  try {
    const { values } = parseArgs({
      options: Object.fromEntries(names.map((name) => [name, { type: "string" }])),
    });
    const given = Object.entries(values).map(([name, text]) => {
      if (typeof defaults[name] === "string") return [name, text];
      if (!/^[1-9]\d{0,14}$/.test(`${text}`)) throw new Error(`--${name} takes a whole number from 1 on`);
      return [name, Number(text)];
    });
    return { ...defaults, ...Object.fromEntries(given) } as Values<Defaults>;
  } catch (error) {
    console.error((error as Error).message);
    process.exit(2);
  }
}
