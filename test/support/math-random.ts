// In each test, Math.random() begins with the seed: also what clients and isolates draw.

import { beforeEach } from "vitest";
import { Random } from "../simulation/random.ts";
import { SEED } from "./seed.ts";

beforeEach(() => {
  const random = new Random(SEED);
  Math.random = () => random.next();
});
