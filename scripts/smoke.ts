// npm run smoke: the smoke test of a service that runs somewhere, with a key that is good there.

import { parseArgs } from "node:util";
import { isWellFormedSecret } from "../src/keys/secret.ts";
import { readOrigin, smokeTest } from "./deploy/smoke-test.ts";
import { print, runCommand, UsageError } from "./lib/command.ts";

const USAGE = `npm run smoke -- URL --key KEY [--create] [--build BUILD [--within SECONDS]]

Sends the service at URL a client's first requests, and fails at the first that is not answered as it should be. Uses up a
dozen requests of the key, which may be in the variable PETSTORE_KEY instead, where other users of the machine don't
see it. With --create it adds a pet, which can't be removed: not for production. With --build it waits until
that build answers, 90 seconds or as many as --within says.`;

await runCommand("the smoke test", async () => {
  const { values, positionals } = readArguments();
  if (values.help) return print(USAGE);
  const [address, ...extra] = positionals;
  if (address === undefined || extra.length > 0) {
    throw new UsageError("name one address: npm run smoke -- http://localhost:8787 --key KEY");
  }
  const origin = readOrigin(address);
  const key = values.key ?? process.env.PETSTORE_KEY;
  if (key === undefined) throw new UsageError("a key is needed: --key KEY, or the variable PETSTORE_KEY");
  if (!isWellFormedSecret(key))
    throw new UsageError("that is no key: keys begin with pet_ and have 38 more characters");
  if (!/^[0-9]{1,4}$/.test(values.within))
    throw new UsageError("--within must be a number of seconds, up to 9999");
  print(`Smoke test of ${origin}`);
  const { build, create, within } = values;
  await smokeTest({ origin, key, build, buildWithinMs: Number(within) * 1000, create, say: print });
  print("All of it is as it should be.");
});

function readArguments() {
  try {
    return parseArgs({
      allowPositionals: true,
      options: {
        key: { type: "string" },
        build: { type: "string" },
        within: { type: "string", default: "90" },
        create: { type: "boolean", default: false },
        help: { type: "boolean", short: "h", default: false },
      },
    });
  } catch {
    throw new UsageError(
      "npm run smoke takes -- URL --key KEY, --create, --build BUILD and --within SECONDS, and nothing else",
    );
  }
}
