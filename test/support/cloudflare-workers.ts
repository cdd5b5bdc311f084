// The part of `cloudflare:workers` that src/rate-limit uses, for Node.

export class DurableObject {
  readonly ctx: unknown;

  constructor(ctx: unknown) {
    this.ctx = ctx;
  }
}

export function waitUntil(): void {
  throw new Error("the simulation has its own runtime");
}
