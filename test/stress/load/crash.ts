// The proof crash: mixed traffic while workerd is killed again and again. It starts again with the same state.

import { readOptions } from "../options.ts";
import { report } from "./load.ts";

/** The runtime is back within one or two seconds. */
const SECONDS_PER_KILL = 6;

const { rounds } = readOptions({ rounds: 20 });
await report({ seconds: (rounds + 1) * SECONDS_PER_KILL, keys: 50, kills: rounds, awaitsRecords: true });
