// The part of the Workers runtime that src/ uses, for Node.

export class DurableObject {
  readonly ctx: unknown;
  readonly env: unknown;

  constructor(ctx: unknown, env: unknown) {
    this.ctx = ctx;
    this.env = env;
  }
}

/** In Node there are no bindings. */
export const env = {};

/** In Node, work continues anyway. */
export function waitUntil(): void {}

/** Unlike Node's own scheduler, it waits on fake timers too. */
const wait = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
Object.assign(globalThis, { scheduler: { wait } });
