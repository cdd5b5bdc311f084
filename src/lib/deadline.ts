// Deadlines: a binding that hangs must not make a client hang. The work may still complete after its deadline.

export class DeadlineExceeded extends Error {
  constructor(part: string, deadlineMs: number) {
    super(`${part} did not answer within ${deadlineMs} ms`);
    this.name = "DeadlineExceeded";
  }
}

/** Rejects with DeadlineExceeded if `work` takes longer. A later result or failure is ignored. */
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
