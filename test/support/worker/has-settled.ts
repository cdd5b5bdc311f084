// For tests of what waits.

/** Whether a promise has settled by now, after everything else that can go on has gone on. */
export async function hasSettled(promise: Promise<unknown>): Promise<boolean> {
  let settled = false;
  const note = () => (settled = true);
  promise.then(note, note);
  for (let turn = 0; turn < 5; turn += 1) await scheduler.wait(0);
  return settled;
}
