// Works around https://github.com/cloudflare/workerd/issues/1741: a request body that a Worker has not read to its end makes the
// next `fetch` to that workerd fail with "Network connection lost". With `wrangler dev`, the next request of another client then
// gets a 500. Wrangler's own middleware drains only untouched bodies (https://github.com/cloudflare/workers-sdk/issues/15203).

import { withDeadline } from "../lib/deadline.ts";

/**
 * Reads and drops the rest of a body, for at most `maxMs`. It reuses the buffer of `bytes`, and yields to other requests between
 * reads.
 */
export async function drain(
  reader: ReadableStreamBYOBReader,
  bytes: Uint8Array,
  maxMs: number,
): Promise<void> {
  let view: Uint8Array = new Uint8Array(bytes.buffer);
  let isOver = false;
  const readAll = async () => {
    while (!isOver) {
      const { done, value } = await reader.readAtLeast(view.byteLength, view);
      if (done) return;
      view = new Uint8Array(value.buffer);
      await scheduler.wait(0);
    }
  };
  await withDeadline("the client", maxMs, readAll).catch(() => {});
  isOver = true;
}
