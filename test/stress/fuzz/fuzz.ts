// The proof fuzz: requests that fit the OpenAPI document and requests that violate it, and a validation of every response. --url
// selects a running service, with a key in the variable PETSTORE_KEY: it must have limits that are never reached, no other client may add
// pets, and only HTTP is sent. --seed repeats the requests of a run or of a failure, with the same document and fuzzer, except for keys.

import { randomInt } from "node:crypto";
import { readOptions } from "../options.ts";
import { fuzz } from "./checks.ts";
import { runningService, startService } from "./service.ts";

const options = readOptions({ requests: 1_000_000, seed: randomInt(1, 1e9), url: "" });
const { requests, seed, url } = options;
const { PETSTORE_KEY: key = "" } = process.env;
if (url !== "" && key === "") throw new Error("--url needs a key in the variable PETSTORE_KEY");
const service = url === "" ? await startService() : runningService(new URL(url), key);
try {
  const { counts, sent } = await fuzz(service, requests, seed);
  for (const [kind, count] of [...counts].sort()) console.log(`${kind}: ${count}`);
  console.log(`${sent} requests without a failure`);
} catch (error) {
  console.log((error as Error).message.replaceAll(service.secret, "$KEY"));
  process.exitCode = 1;
} finally {
  await service.stop();
}
