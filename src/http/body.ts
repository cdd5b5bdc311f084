// Request bodies: media type, size and time, encoding, JSON and its limits, schema, in this order, each with an error of its own.
// `c.req.json()` is not used because it rounds integers above 2^53 and mends invalid UTF-8, the `json` target of
// `zValidator` is not because it takes a body of another media type for an empty object, and `hono/body-limit` is not
// because it gives up reading in the middle of a large body: the local server then fails somebody else's request.

import type { MiddlewareHandler } from "hono";
import type * as z from "zod/mini";
import { DeadlineExceeded, withDeadline } from "../lib/deadline.ts";
import { ApiError } from "./errors.ts";
import { readMembers } from "./json-scanner.ts";
import { invalidRequest } from "./query.ts";
import type { HttpEnv } from "./request-context.ts";
import { requestHeader } from "./request-header.ts";

export const MAX_BODY_BYTES = 64 * 1024;

/**
 * How long a body may take to arrive; the largest then comes at 52 kbit/s. Its request was let in when it began, so whoever
 * holds a body back could otherwise have it done hours later, by a key that is long revoked.
 */
export const MAX_BODY_MS = 10_000;

/**
 * A value as a client of ours has it in TypeScript, where JSON has one type of number. Above 2^53 that is not exact in
 * JavaScript: whoever has such ids reads and writes the text.
 */
export type Json<Value> = Value extends bigint
  ? number
  : Value extends object
    ? { [Key in keyof Value]: Json<Value[Key]> }
    : Value;

/** `application/json` or any `application/…+json`, with or without parameters (RFC 8259, RFC 6839). */
const JSON_MEDIA_TYPE = /^application\/([\w.!#$&^+-]+\+)?json\s*(;|$)/i;

/**
 * Makes the body available as `c.req.valid("json")`, parsed and fitting `schema`, in which integers of
 * 64 bits are `bigint`.
 *
 * Throws `unsupported_media_type`, `payload_too_large` or `invalid_request`.
 */
export function jsonBody<Schema extends z.ZodMiniObject>(
  schema: Schema,
): MiddlewareHandler<
  HttpEnv,
  string,
  { in: { json: Json<z.input<Schema>> }; out: { json: z.output<Schema> } }
> {
  return async function jsonBody(c, next) {
    requireJson(c.req.raw.headers);
    c.req.addValidatedData("json", parseBody(schema, await readBody(c.req.raw)));
    await next();
  };
}

/** The object that a body is, fitting `schema`. Throws `invalid_request`. */
export function parseBody<Schema extends z.ZodMiniObject>(
  schema: Schema,
  bytes: Uint8Array,
): z.output<Schema> {
  const body = schema.safeParse(readMembers(bytes, Object.keys(schema.shape)));
  if (!body.success) throw invalidRequest(body.error.issues);
  return body.data;
}

function requireJson(headers: Headers): void {
  if (!JSON_MEDIA_TYPE.test(requestHeader(headers, "Content-Type") ?? "")) {
    throw new ApiError("unsupported_media_type", "Content-Type: must be application/json");
  }
  if ((requestHeader(headers, "Content-Encoding") ?? "identity").toLowerCase() !== "identity") {
    const accepted = { "Accept-Encoding": "identity" };
    throw new ApiError("unsupported_media_type", "Content-Encoding: must be absent", accepted);
  }
}

/**
 * The bytes of a body. One that is announced as too large is not touched, of one that turns out so the rest is dropped: to
 * give up reading would make the local server fail somebody else's request.
 */
async function readBody({ headers, body }: Request): Promise<Uint8Array> {
  const announced = Number(headers.get("Content-Length") ?? MAX_BODY_BYTES);
  if (announced > MAX_BODY_BYTES) throw tooLarge();
  if (body === null) return new Uint8Array();
  const reader = body.getReader({ mode: "byob" });
  const bytes = await readAll(reader, announced);
  if (bytes.length <= announced) return bytes;
  await readToEnd(reader, bytes);
  throw tooLarge();
}

/**
 * All bytes of a stream; of one that has more than `maxBytes`, one byte more. They are read into one buffer: a client
 * decides how short the chunks are, and each that is kept by itself would take four kilobytes.
 */
async function readAll(reader: ReadableStreamBYOBReader, maxBytes: number): Promise<Uint8Array> {
  const length = maxBytes + 1;
  try {
    const read = () => reader.readAtLeast(length, new Uint8Array(length));
    const { value = new Uint8Array() } = await withDeadline("the client", MAX_BODY_MS, read);
    return value;
  } catch (error) {
    const isLate = error instanceof DeadlineExceeded;
    const problem = isLate ? `must arrive within ${MAX_BODY_MS / 1_000} s` : "ended too early";
    throw new ApiError("invalid_request", `body: ${problem}`);
  }
}

/** Reads and drops what is left, into the same buffer, for as long again, and lets other requests go on in between. */
async function readToEnd(reader: ReadableStreamBYOBReader, dropped: Uint8Array): Promise<void> {
  let buffer: ArrayBufferLike | undefined = dropped.buffer;
  const dropAll = async () => {
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
  await withDeadline("the client", MAX_BODY_MS, dropAll).catch(() => {
    buffer = undefined;
  });
}

function tooLarge(): ApiError {
  return new ApiError("payload_too_large", `body: must be at most ${MAX_BODY_BYTES} bytes`);
}
