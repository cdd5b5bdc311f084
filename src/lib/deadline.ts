// How long the service waits for another part: a binding that hangs must not make a client hang. Giving up tells
// nothing about what the other part did, or still will do.

export class DeadlineExceeded extends Error {
  constructor(part: string, deadlineMs: number) {
    super(`${part} did not answer within ${deadlineMs} ms`);
    this.name = "DeadlineExceeded";
  }
}

/** What `work` gives, or DeadlineExceeded if that takes longer. What comes too late, even a failure, is dropped. */
export async function withDeadline<Result>(
  part: string,
  deadlineMs: number,
  work: () => Promise<Result>,
): Promise<Result> {
  const { promise: expired, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new DeadlineExceeded(part, deadlineMs)), deadlineMs);
  try {
    return await Promise.race([work(), expired]);
  } finally {
    clearTimeout(timer);
  }
}
