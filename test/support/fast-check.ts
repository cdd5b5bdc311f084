// fast-check with the seed of the tests, where a property has no seed of its own.

import fc from "fast-check";
import { SEED } from "./seed.ts";

fc.configureGlobal({ seed: SEED });
export default fc;
