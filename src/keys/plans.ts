// The plans and their limits, in the only place that has them: a plan changes with a deployment, a key's plan without one. The database
// has only the plan's name, which this version need not know: a later one may have given it to the key.

/** The windows of all keys, with their lengths in seconds: see KeyPolicy. */
export const WINDOWS = { minute: 60, day: 86_400 } as const;
export type WindowName = keyof typeof WINDOWS;
export const WINDOW_NAMES = Object.keys(WINDOWS) as WindowName[];

/** Each key has a limit of it. */
export const SHORTEST = WINDOW_NAMES[0] as WindowName;
/** Those that a day has several of. */
export const SHORT_WINDOWS = WINDOW_NAMES.filter((name) => WINDOWS[name] < 86_400);

/** How many requests each window admits, ≥ 1. */
export type Limits = Record<WindowName, number>;

/** A value for each window. */
export function forEachWindow<Value>(make: (name: WindowName) => Value): Record<WindowName, Value> {
  return Object.fromEntries(WINDOW_NAMES.map((name) => [name, make(name)])) as Record<WindowName, Value>;
}

/** `60 requests per minute, 1000 per day`. A key that had its own limits before there was a window has none for it. */
export function limitsText(limits: Partial<Limits>, format: (limit: number) => string = String): string {
  const all = WINDOW_NAMES.flatMap((name) => {
    const { [name]: limit } = limits;
    return limit === undefined ? [] : [`${format(limit)} per ${name}`];
  });
  return all.join(", ").replace(" per", " requests per");
}

/** `60/minute 1000/day` */
export function shortLimitsText(limits: Partial<Limits>): string {
  return limitsText(limits).replace(" requests", "").replaceAll(" per ", "/").replaceAll(",", "");
}

/** The limits of each plan; undefined if each of its keys has limits of its own, which are stored with the key. */
export const PLAN_LIMITS = {
  free: { minute: 60, day: 1_000 },
  pro: { minute: 300, day: 10_000 },
  business: { minute: 1_000, day: 100_000 },
  enterprise: undefined,
} as const satisfies Record<string, Limits | undefined>;

export type Plan = keyof typeof PLAN_LIMITS;

export const PLANS = Object.keys(PLAN_LIMITS) as Plan[];

/** The plans whose keys have limits of their own. */
export const PLANS_WITH_OWN_LIMITS: readonly string[] = PLANS.filter(
  (plan) => PLAN_LIMITS[plan] === undefined,
);

/** The limits of a key; undefined if its plan is unknown, or if the key lacks the limits of its own that the plan needs. */
export function limitsOf(plan: string, own: Limits | undefined): Limits | undefined {
  return isPlan(plan) ? (PLAN_LIMITS[plan] ?? own) : undefined;
}

/** Why a key without limits can't be used. */
export function noLimits({ id, plan }: { id: string; plan: string }): string {
  const reason = isPlan(plan)
    ? `its plan, ${plan}, needs limits of its own, each a whole number from 1 on`
    : `its plan, ${plan}, is unknown to this version`;
  return `the key ${id} has no limits: ${reason}`;
}

function isPlan(name: string): name is Plan {
  return Object.hasOwn(PLAN_LIMITS, name);
}
