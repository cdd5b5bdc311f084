// npm run proof: runs the named proofs with the options after their names, and continues after a failure.

import { spawnSync } from "node:child_process";
import { PROOFS, type Proof } from "./proofs.ts";

const args = process.argv[2] === "all" ? Object.keys(PROOFS) : process.argv.slice(2);
const others = args.findIndex((each) => !Object.hasOwn(PROOFS, each));
const names = others === -1 ? args : args.slice(0, others);
if (names.length === 0) {
  for (const [name, { shows }] of Object.entries(PROOFS)) console.log(`${name.padEnd(12)}${shows}`);
  process.exit(args.length === 0 ? 0 : 2);
}
const failed = names.filter((name) => !passes(name, args.slice(names.length)));
if (failed.length > 0) console.error(`${failed.length} failed: ${failed.join(", ")}`);
process.exitCode = failed.length > 0 ? 1 : 0;

function passes(name: string, options: string[]): boolean {
  const { shows, command, env: defaults } = PROOFS[name] as Proof;
  const env = { ...defaults, ...process.env };
  const variables = Object.keys(defaults ?? {}).map((each) => `${each}=${env[each]}`);
  const again = [...variables, "npm run proof --", name, ...options].join(" ");
  console.error(`proof: ${again}`);
  const startMs = performance.now();
  const words = ["scripts/run.mjs", ...command.split(" "), ...options];
  const { status } = spawnSync(process.execPath, words, { env, stdio: "inherit" });
  const minutes = ((performance.now() - startMs) / 60_000).toFixed(1);
  console.log(
    status === 0
      ? `${name}: shown in ${minutes} min: ${shows}`
      : `${name}: FAILED after ${minutes} min: ${again}`,
  );
  return status === 0;
}
