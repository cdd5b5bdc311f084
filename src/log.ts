// The only place that writes to the log: one JSON object a line, which the platform can search by field.
// Neither a key nor a body is ever logged.

/** Logs an unexpected failure with its cause and stack. */
export function logFailure(error: Error, requestId: string): void {
  const { name, message, stack } = error;
  const cause = error.cause instanceof Error ? `${error.cause}` : undefined;
  // biome-ignore lint/suspicious/noConsole: the console is the log of a Worker
  console.error(JSON.stringify({ event: "internal_error", requestId, name, message, stack, cause }));
}
