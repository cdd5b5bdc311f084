// Prints each fault of faults.txt that no longer fits the code, and exits with 1 if there is one.

import { misfit, readFaults } from "./faults.ts";

for (const fault of await readFaults()) {
  const reason = await misfit(fault);
  if (reason === undefined) continue;
  console.error(`${fault.file}: ${fault.rule}: ${reason}`);
  process.exitCode = 1;
}
