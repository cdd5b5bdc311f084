// ./petstore smoke: the smoke test against a running service, with a key that is valid there.

import { text } from "node:stream/consumers";
import { keyIdOf } from "../../src/keys/secret.ts";
import { SECRET_LENGTH, SECRET_PREFIX } from "../../src/keys/secret-format.ts";
import { readOrigin, smokeTest } from "../deploy/smoke-test.ts";
import { defineCommand } from "../lib/command.ts";
import { UsageError } from "../lib/io.ts";

export default defineCommand({
  description:
    "Sends a dozen requests to a running service and fails at the first wrong response. They count against the limits of a key, which it takes from the variable PETSTORE_KEY or from standard input.",
  arguments: [{ name: "url", description: "the service's URL", parse: readOrigin }],
  options: {
    create: { description: "also create a pet, which can't be deleted: don't use it in production" },
  },
  examples: ["http://localhost:8787 --create", "https://petstore.example < key.txt"],
  async handler(io, { create = false }, origin) {
    const given = io.env.PETSTORE_KEY ?? (io.stdin.isTTY ? "" : await text(io.stdin));
    const key = given.trim();
    if (key === "") throw new UsageError("no key: set PETSTORE_KEY, or write the key to standard input");
    if (keyIdOf(key) === undefined)
      throw new UsageError(
        `not an API key: keys begin with ${SECRET_PREFIX} and have ${SECRET_LENGTH} more characters`,
      );
    await smokeTest(io, { origin, key, create });
    io.print(`${origin} passes the smoke test.`);
  },
});
