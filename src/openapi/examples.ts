// Values of the examples in the published document. Tests send them and compare the responses.

import type { UsageBody } from "../keys/usage/usage-body.ts";
import { DAYS_KEPT } from "../limits/index.ts";
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

/** A Free key after its first request. */
export const EXAMPLE_USAGE: UsageBody = {
  plan: "free",
  minute: { limit: 60, used: 1, remaining: 59, reset: 1795178100 },
  day: { limit: 1000, used: 1, remaining: 999, reset: 1795219200 },
  bannedUntil: null,
  days: Array.from({ length: DAYS_KEPT }, (_, index) => {
    const daysAgo = DAYS_KEPT - 1 - index;
    const date = isoDate(new Date(Date.UTC(2026, 10, 20 - daysAgo)));
    const admitted = daysAgo === 0 ? 1 : 0;
    return { date, admitted, refusedByMinute: 0, refusedByDay: 0, busiestMinute: admitted };
  }),
};

/** A pet as a client sends it. */
export function newPet<Pet extends { id: number }>({ id: _, ...pet }: Pet): Omit<Pet, "id"> {
  return pet;
}

export function isoDate(date: Date): string {
  return date.toISOString().slice(0, 10);
}
