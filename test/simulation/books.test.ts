// Random lives of a key of the second API (test/e2e/books), whose windows last for ten seconds and an hour. simulation.test.ts has those of ours.

import { expect, it } from "vitest";
import type { Key } from "../../src/keys/key.ts";
import { POLICY } from "../e2e/books/books.ts";
import type { Service } from "./port.ts";
import { runScenario } from "./scenario.ts";

const FIRST_SEED = 7_000_001;
const LIVES = 25;

const BOOKS: Service = {
  policy: POLICY as unknown as Service["policy"],
  keyOf: ({ id, limits, secrets }: Key) => ({ name: id, token: secrets[0]?.hash, limits }),
  lacks: ["unbans", "rotations", "expiries", "revocations"],
};

it("no life of a reader's key breaks a guarantee", { timeout: 0 }, async () => {
  const totals: Record<string, number> = {};
  for (let life = 0; life < LIVES; life += 1)
    for (const [name, count] of Object.entries(await runScenario(FIRST_SEED + life, BOOKS)))
      totals[name] = (totals[name] ?? 0) + count;
  expect(totals).toMatchObject({ unbans: 0, rotations: 0, expiries: 0, revocations: 0 });
  for (const name of ["crashes", "leases", "undecided", "refused", "exactScenarios", "usageChecked"])
    expect(totals[name], name).toBeGreaterThan(0);
});
