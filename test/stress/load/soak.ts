// The proof soak: mixed traffic for minutes. From eight minutes on it also fails if memory grows, which needs an idle machine.

import { readOptions } from "../options.ts";
import { report } from "./load.ts";

const { minutes } = readOptions({ minutes: 10 });
await report({ seconds: minutes * 60, keys: 50, kills: 0, awaitsRecords: true });
