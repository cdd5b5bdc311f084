// npm run bench:geo: how long requests take in six regions of the world, and what they cost, simulated.
//
//   npm run bench:geo -- [--seconds N] [--seed N] [--json] [--svg]
//
// The service and the textbook's one run in workerd, one after the other, for 75 s of real time each by default. Each has a
// Worker in six regions; the database's primary and the objects are at home in one of them, and each region has a replica.
// Every statement and every call waits for a real round trip (distance.ts) of published length (regions.ts). Both get the
// same requests at the same moments (visits.ts), beginning with empty memories. Every answer has to be the expected one, and
// who creates a pet has to see it in the next list, wherever that is read, or the bench fails. --svg writes docs/geo.svg.
//
// What is written goes to memory where there is a folder in it, as on Linux: a disk that many objects of one machine share
// would make them wait for each other, which on Cloudflare they don't. Elsewhere TMPDIR should name one.
//
// What the figures do not say: how far a client is from its Worker, and how Cloudflare's own network differs from the source
// of the round trips. A region has one isolate here and has many there: a key's requests that are spread over more of them
// find what they need in memory less often. A minute is short: what is read again every 30 s is a large part of it.

import "./memory-folder.ts";

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { PETS } from "../measure/implementations.ts";
import { installPackages } from "../measure/packages.ts";
import { progress, tableText } from "../measure/report.ts";
import { WORKERD_VERSION } from "../measure/workerd.ts";
import { PRICES } from "./counts.ts";
import { REGIONS, SOURCE } from "./regions.ts";
import { GROUNDS, machineNote, resultOf, type WorldResult, worldPicture, worldTables } from "./results.ts";
import { runInWorld, WORLD_CONTESTANTS, type WorldContestantName } from "./run.ts";
import { drawVisits } from "./visits.ts";

const PICTURE = join(import.meta.dirname, "../../docs/geo.svg");

try {
  await main();
} catch (error) {
  process.stderr.write(`npm run bench:geo failed: ${error instanceof Error ? error.message : error}\n`);
  process.exit(1);
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      seconds: { type: "string", default: "75" },
      seed: { type: "string", default: "1" },
      json: { type: "boolean", default: false },
      svg: { type: "boolean", default: false },
    },
  });
  const [seconds, seed] = [wholeNumber("seconds", values.seconds), wholeNumber("seed", values.seed)];
  await installPackages();
  const visits = drawVisits(seed, { regions: REGIONS.length, pets: PETS, seconds });
  const run = async (name: WorldContestantName): Promise<WorldResult> => {
    progress(`${name}: ${seconds} s in ${REGIONS.length} regions …`);
    return resultOf(await runInWorld(WORLD_CONTESTANTS[name], visits));
  };
  const petstore = await run("petstore");
  const textbook = await run("textbook");
  if (values.svg) await writeFile(PICTURE, worldPicture(petstore, textbook));
  if (values.json) {
    const world = {
      workerd: WORKERD_VERSION,
      seconds,
      seed,
      source: SOURCE,
      regions: REGIONS,
      prices: PRICES,
    };
    process.stdout.write(`${JSON.stringify({ ...world, results: { petstore, textbook } }, null, 2)}\n`);
    return;
  }
  const tables = worldTables(petstore, textbook).map(tableText);
  process.stdout.write(`${tables.join("\n")}\n${[machineNote(petstore, textbook), ...GROUNDS].join("\n")}\n`);
}

function wholeNumber(option: string, text: string): number {
  if (!/^[1-9][0-9]{0,3}$/.test(text)) throw new Error(`--${option} must be a whole number from 1 on`);
  return Number(text);
}
