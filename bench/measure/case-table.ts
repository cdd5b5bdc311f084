// The table of a load case: each implementation's figures, and the service's relative to them.

import { HAS_PROCESSOR_TIME } from "./processor-time.ts";
import { type Table, whole } from "./report.ts";
import type { CaseResult, Ratio } from "./rounds.ts";

export function caseTable({ name, title, results, ratios }: CaseResult): Table {
  const hasInstructions = results.some(({ instructions }) => !Number.isNaN(instructions));
  const optional = (isShown: boolean, cell: string) => (isShown ? [cell] : []);
  const compared = HAS_PROCESSOR_TIME ? "µs" : "requests/s";
  return {
    title: `${name}: ${title}${HAS_PROCESSOR_TIME ? "" : " (processor time is measured on Linux only)"}`,
    columns: [
      "",
      ...optional(HAS_PROCESSOR_TIME, "µs"),
      ...optional(hasInstructions, "instructions"),
      ...["requests/s", "min", "max", "p50 ms", "p99 ms"],
      `petstore's ${compared} ÷ its (95 % interval)`,
    ],
    rows: results.map((result) => {
      const { implementation, microseconds, instructions, requestsPerSecond: rate, p50Ms, p99Ms } = result;
      const own = ratios.filter(({ to }) => to === implementation);
      return [
        implementation,
        ...optional(HAS_PROCESSOR_TIME, microseconds.toFixed(1)),
        ...optional(hasInstructions, whole(instructions)),
        ...[rate.median, rate.min, rate.max].map(whole),
        ...[p50Ms, p99Ms].map((ms) => ms.toFixed(2)),
        own.filter(isShown).map(ratioText).join("; "),
      ];
    }),
  };
}

/** Requests per second are compared where they have a target, or where processor time is not measured. */
function isShown({ of, target }: Ratio): boolean {
  return of === "microseconds" || target !== undefined || !HAS_PROCESSOR_TIME;
}

function ratioText({ of, median: middle, low, high, differs, target }: Ratio): string {
  const digits = middle < 0.1 ? 4 : 3;
  const [value = "", from = "", to = ""] = [middle, low, high].map((each) => each.toFixed(digits));
  const interval = `${from} to ${to}, ${differs ? "differs" : "no difference seen"}`;
  const text = `${of === "requestsPerSecond" ? "requests/s " : ""}${value} (${interval})`;
  if (target === undefined) return text;
  const { limit, met, isCertain } = target;
  const bound = of === "microseconds" ? "at most" : "at least";
  return `${text}, ${bound} ${limit}: ${met ? "met" : "missed"}${isCertain ? "" : ", uncertain"}`;
}
