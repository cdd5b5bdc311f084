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
  let buffer: ArrayBufferLike | undefined = bytes.buffer;
  const readAll = async () => {
    while (buffer !== undefined) {
      const read: Promise<ReadableStreamReadResult<Uint8Array>> = reader.readAtLeast(
        buffer.byteLength,
        new Uint8Array(buffer),
      );
      const { done, value } = await read;
      buffer = done || buffer === undefined ? undefined : value.buffer;
      await scheduler.wait(0);
    }
  };
  await withDeadline("the client", maxMs, readAll).catch(() => {
    buffer = undefined;
  });
}
