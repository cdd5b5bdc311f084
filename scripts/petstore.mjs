#!/usr/bin/env node
// npx petstore: installs what it needs, then runs petstore.ts.

import { run } from "./run.mjs";

await run(["--omit=dev", "scripts/petstore.ts", ...process.argv.slice(2)]);
