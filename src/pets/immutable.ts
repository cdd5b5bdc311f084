// RULE: A pet never changes and never vanishes, because no operation changes or deletes one.
//
// Code relies on the rule where it imports this module, documents where they name it, and the guide where it promises that a walk returns
// every pet that existed at its start. An operator's changes by hand, and a restore, break the rule on purpose: docs/operating.md
// ("An earlier state") says for how long that shows.

import type { OPERATIONS } from "../http/operations.ts";

type OfPets = Extract<(typeof OPERATIONS)[keyof typeof OPERATIONS], { path: `/pets${string}` }>;

/** The operations that can change or delete a pet: all but reads and the creation. */
type Changing = Exclude<OfPets, { method: "get" } | { method: "post"; path: "/pets" }>;

/** A value that is right only while the rule holds. Otherwise it is `never`, so that code that relies on the rule does not compile. */
export type IfPetsNeverChange<Value> = [Changing] extends [never] ? Value : never;
