/** Whether a promise settles without further events. */
export async function hasSettled(promise: Promise<unknown>): Promise<boolean> {
  let settled = false;
  const note = () => (settled = true);
  promise.then(note, note);
  for (let turn = 0; turn < 5; turn += 1) await scheduler.wait(0);
  return settled;
}
