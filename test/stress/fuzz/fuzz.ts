// The proof fuzz: requests that fit the OpenAPI document and requests that violate it, and a validation of every response. --url
// selects a running service, with a key in the variable PETSTORE_KEY: it must have limits that are never reached, no other client may add
// pets, and only HTTP is sent. TEST_SEED=n repeats the requests of a run or of a failure, with the same document and fuzzer, except for keys.

import { SEED } from "../../support/seed.ts";
import { readOptions } from "../options.ts";
import { fuzz } from "./checks.ts";
import { runningService, startService } from "./service.ts";

const { requests, url } = readOptions({ requests: 1_000_000, url: "" });
const { PETSTORE_KEY: key = "" } = process.env;
if (url !== "" && key === "") throw new Error("--url needs a key in the variable PETSTORE_KEY");
const service = url === "" ? await startService() : runningService(new URL(url), key);
try {
  const { counts, sent } = await fuzz(service, requests, SEED);
  for (const [kind, count] of [...counts].sort()) console.log(`${kind}: ${count}`);
  console.log(`${sent} requests without a failure`);
} catch (error) {
  console.log((error as Error).message.replaceAll(service.secret, "$KEY"));
  process.exitCode = 1;
} finally {
  await service.stop();
}
