// Has temporary files made in memory. To be imported before whatever makes one.

import { existsSync } from "node:fs";

const IN_MEMORY = "/dev/shm";

if (process.env.TMPDIR === undefined && existsSync(IN_MEMORY)) process.env.TMPDIR = IN_MEMORY;
