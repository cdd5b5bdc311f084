// The parts of Swagger UI that the reference page uses: it has no types of its own.

export type Component = (props: Record<string, unknown>) => unknown;
export type Wrap = (Original: Component, system: System) => Component;

export interface System {
  React: {
    Fragment: Component;
    createElement(type: string | Component, props: object | null, ...children: unknown[]): unknown;
    useState<Value>(initial: Value): [Value, (value: Value) => void];
    useSyncExternalStore<Value>(subscribe: (listener: () => void) => () => void, read: () => Value): Value;
  };
  getComponent(name: string, container: boolean): Component;
  layoutActions: { show(part: string[], isShown: boolean): void };
  specActions: { clearResponse(path: string, method: string): void };
  specSelectors: {
    mutatedRequestFor(path: unknown, method: unknown): { getIn(path: string[]): string | undefined };
  };
}

/** Calls `listener` whenever the user may have entered or chosen something. Returns a function that unsubscribes it. */
export function onInput(listener: () => void): () => void {
  const events = ["input", "pageshow"];
  for (const each of events) addEventListener(each, listener);
  return () => {
    for (const each of events) removeEventListener(each, listener);
  };
}
