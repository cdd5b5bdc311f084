// Starts npm run proof.

import { prove } from "./proofs.ts";

// Ctrl+C reaches the processes of proofs anyway, other signals only this one.
for (const signal of ["SIGTERM", "SIGHUP"] as const) process.on(signal, () => process.exit(1));

process.exitCode = await prove(process.argv.slice(2));
