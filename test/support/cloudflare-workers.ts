// The part of `cloudflare:workers` that src/rate-limit uses, for Node.

export class DurableObject {
  readonly ctx: unknown;
  readonly env: unknown;

  constructor(ctx: unknown, env: unknown) {
    this.ctx = ctx;
    this.env = env;
  }
}

export function waitUntil(): void {
  throw new Error("the simulation has its own runtime");
}
