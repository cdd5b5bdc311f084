// The sequential hops of a response, from its header Server-Timing ("Server timing" in the guide).

/** How the request was decided; undefined if the header does not say. */
export interface Provenance {
  hops: number;
  by: string | undefined;
}

/**
 * The longest chain of hops that don't overlap, and how the request was decided. A hop that read a record first is two. Before its first hop,
 * or without one, a request has waited for a hop of another request if that took any time: code takes none.
 */
export function provenanceOf(serverTiming: string): Provenance {
  const metrics = serverTiming.split(", ").map((metric) => {
    const [name = "", ...parameters] = metric.split(";");
    return { name, ...Object.fromEntries(parameters.map((each) => each.split("="))) };
  });
  const waitedAfter = (ms: unknown) => (Number(ms) > 0 ? 1 : 0);
  const hops: { endMs: number; depth: number }[] = [];
  for (const { name, start, dur } of metrics) {
    const last = hops.at(-1);
    if (name === "record" && last !== undefined) last.depth += 1;
    if (start === undefined) continue;
    const before = hops.filter(({ endMs }) => endMs <= Number(start)).map(({ depth }) => depth);
    hops.push({ endMs: Number(start) + Number(dur), depth: 1 + Math.max(waitedAfter(start), ...before) });
  }
  const totalMs = Number(metrics.find(({ name }) => name === "total")?.dur);
  const by = metrics.find(({ name }) => name === "limiter")?.desc;
  return { hops: Math.max(waitedAfter(totalMs), ...hops.map(({ depth }) => depth)), by };
}
