// Puts temporary files into memory. Must be imported before any module that creates one.

import { existsSync } from "node:fs";

const IN_MEMORY = "/dev/shm";

if (process.env.TMPDIR === undefined && existsSync(IN_MEMORY)) process.env.TMPDIR = IN_MEMORY;
