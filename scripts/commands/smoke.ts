// npx petstore smoke: the smoke test against a running service, with a key that is valid there.

import { keyIdOf } from "../../src/keys/secret.ts";
import { SECRET_LENGTH, SECRET_PREFIX } from "../../src/keys/secret-format.ts";
import { readOrigin, smokeTest } from "../deploy/smoke-test.ts";
import { defineCommand } from "../lib/command.ts";
import { UsageError } from "../lib/io.ts";

export default defineCommand({
  description:
    "Sends a dozen requests to a running service and fails at the first wrong response. They count against the key's limits.",
  arguments: [{ name: "url", description: "the service's URL", parse: readOrigin }],
  options: {
    key: {
      placeholder: "key",
      description: "an API key; other users of the machine can't see it in the variable PETSTORE_KEY",
    },
    create: { description: "also create a pet, which can't be deleted: don't use it in production" },
  },
  examples: ["http://localhost:8787 --key KEY --create", "https://petstore.example --key KEY"],
  async handler(io, { key = io.env.PETSTORE_KEY, create = false }, origin) {
    if (key === undefined)
      throw new UsageError("no key: npx petstore smoke URL --key KEY, or set PETSTORE_KEY");
    if (keyIdOf(key) === undefined)
      throw new UsageError(
        `not an API key: keys begin with ${SECRET_PREFIX} and have ${SECRET_LENGTH} more characters`,
      );
    await smokeTest(io, { origin, key, create });
    io.print(`${origin} passes the smoke test.`);
  },
});
