// npm run smoke: the smoke test against a running service, with a key that is valid there.

import { isWellFormedSecret } from "../src/keys/secret.ts";
import { readOrigin, smokeTest } from "./deploy/smoke-test.ts";
import { print, readArguments, runCommand, UsageError } from "./lib/command.ts";

const USAGE = `npm run smoke -- URL --key KEY [--create] [--build BUILD [--within SECONDS]]

Sends a dozen requests to the service at URL and fails at the first wrong response. They count against the key's limits. The
variable PETSTORE_KEY can hold the key instead of --key, which other users of the machine can see.
--create also creates a pet, which can't be deleted: don't use it in production.
--build waits up to 90 seconds, or --within SECONDS, until that build responds.`;

/** Runs the command. Throws what `runCommand` expects. */
export async function smoke(args: string[]): Promise<void> {
  const { values, positionals } = readArguments("smoke", {
    args,
    allowPositionals: true,
    options: {
      key: { type: "string" },
      build: { type: "string" },
      within: { type: "string", default: "90" },
      create: { type: "boolean", default: false },
      help: { type: "boolean", short: "h", default: false },
    },
  });
  if (values.help) return print(USAGE);
  const [url, ...extra] = positionals;
  if (url === undefined || extra.length > 0) {
    throw new UsageError("expected one URL: npm run smoke -- http://localhost:8787 --key KEY");
  }
  const origin = readOrigin(url);
  const key = values.key ?? process.env.PETSTORE_KEY;
  if (key === undefined) throw new UsageError("no key: add --key KEY, or set PETSTORE_KEY");
  if (!isWellFormedSecret(key)) {
    throw new UsageError("not an API key: keys begin with pet_ and have 38 more characters");
  }
  if (!/^[0-9]{1,4}$/.test(values.within)) {
    throw new UsageError("--within must be a number of seconds, up to 9999");
  }
  print(`Smoke test of ${origin}`);
  const { build, create, within } = values;
  await smokeTest({ origin, key, build, timeoutMs: Number(within) * 1000, create, log: print });
  print("Passed.");
}

if (import.meta.main) await runCommand("smoke test", () => smoke(process.argv.slice(2)));
