// Values of the examples in the published document. Tests send them and compare the responses.

import { forEachWindow, PLAN_LIMITS, SHORT_WINDOWS, WINDOWS } from "../keys/plans.ts";
import { usageBody } from "../keys/usage/usage-body.ts";
import type { Outlook } from "../limits/index.ts";
import type { NewPet, Pet } from "../pets/schema.ts";

/** A value as JSON, in which int64 are numbers. */
type AsJson<Value> = Value extends bigint
  ? number
  : Value extends object
    ? { [Key in keyof Value]: AsJson<Value[Key]> }
    : Value;

/** Has every field. */
const COMPLETE: AsJson<Required<NewPet>> = { name: "Zoë", categoryId: 2, status: "available" };

/** The first three pets exist; the examples add the others. */
export const EXAMPLE_PETS = {
  rex: { id: 1, name: "Rex", categoryId: 1, status: "available" },
  mimi: { id: 2, name: "Mimi", categoryId: 2, status: "pending" },
  goldie: { id: 3, name: "Goldie", categoryId: 3 },
  zoe: { id: 4, ...COMPLETE },
  bello: { id: 5, name: "Bello", categoryId: 1 },
} satisfies Record<string, AsJson<Pet>>;

/** All examples are of this time: 20 November 2026, 12:34:20 UTC. */
export const EXAMPLE_MS = Date.UTC(2026, 10, 20, 12, 34, 20);

/** A Free key after its first request. */
export const EXAMPLE_OUTLOOK: Outlook = {
  admitted: true,
  nowMs: EXAMPLE_MS,
  windows: forEachWindow((name) => {
    const seconds = WINDOWS[name];
    const startMs = EXAMPLE_MS - (EXAMPLE_MS % (seconds * 1000));
    return { seconds, startMs, used: 1, limit: PLAN_LIMITS.free[name] };
  }),
};
export const EXAMPLE_USAGE = usageBody("free", EXAMPLE_OUTLOOK, [
  {
    date: isoDate(new Date(EXAMPLE_MS)),
    admitted: 1,
    refusedBy: {},
    busiest: Object.fromEntries(SHORT_WINDOWS.map((name) => [name, 1])),
    lastAdmittedMs: EXAMPLE_MS,
    lastRefusedMs: 0,
  },
]);

/** A pet as a client sends it. */
export function newPet<Pet extends { id: number }>({ id: _, ...pet }: Pet): Omit<Pet, "id"> {
  return pet;
}

export function isoDate(date: Date): string {
  return date.toISOString().slice(0, 10);
}
