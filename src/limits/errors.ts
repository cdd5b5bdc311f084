/**
 * What the limiter throws: it can't answer now, because
 * - `key`: nobody can tell about the key. Its object has no key that it may use, or neither the object nor the primary answers;
 * - `counts`: the object can't be asked for the usage of the key;
 * - `lookups`: too many keys that are new to the isolate are looked up for one address or network.
 */
export class LimiterUnavailable extends Error {
  readonly reason: "key" | "counts" | "lookups";

  constructor(reason: LimiterUnavailable["reason"], cause?: unknown) {
    super(`the limiter can't answer (${reason})`, { cause });
    this.name = "LimiterUnavailable";
    this.reason = reason;
  }
}
