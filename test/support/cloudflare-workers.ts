// What src/rate-limit needs of the runtime, for Node: the classes themselves are the service's own.

export class DurableObject {
  readonly ctx: unknown;

  constructor(ctx: unknown) {
    this.ctx = ctx;
  }
}

export function waitUntil(): void {
  throw new Error("the simulation hands its own runtime in");
}
