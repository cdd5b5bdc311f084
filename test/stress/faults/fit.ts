// Fails if a fault of faults.txt no longer fits the code.

import { readFaults } from "./faults.ts";

readFaults();
