// Validates request bodies: media type, size and time, encoding, JSON, schema, in this order, each with its own error. Two helpers are
// not used: `c.req.json()` rounds integers above 2^53 and repairs invalid UTF-8; `hono/body-limit` stops reading large bodies
// (see drain.ts).

import { isUtf8 } from "node:buffer";
import type { MiddlewareHandler } from "hono";
import type * as z from "zod/mini";
import { DeadlineExceeded, withDeadline } from "../lib/deadline.ts";
import { parseJson } from "../lib/json.ts";
import { drain } from "./drain.ts";
import { ApiError } from "./errors.ts";
import { MESSAGES } from "./messages.ts";
import { invalidRequest } from "./query.ts";
import type { HttpEnv } from "./request-context.ts";

/** The longest pet takes 3.2 KB. More: more processor time for parsing; less: no room for larger pets. */
export const MAX_BODY_BYTES = 16 * 1024;

/**
 * How long a body may take to arrive. The key was checked when the request started; without a limit,
 * a client could complete the request long after its key was revoked.
 */
export const MAX_BODY_MS = 10_000;

/** `application/json` or any `application/…+json`, with or without parameters (RFC 8259, RFC 6839). */
const JSON_MEDIA_TYPE = /^application\/([\w.!#$&^+-]+\+)?json\s*(;|$)/i;

const { json, bodyTooSlow, bodyIncomplete } = MESSAGES.invalid_request;

/**
 * Validates the body against `schema` and makes it available as `c.req.valid("json")`. Throws `unsupported_media_type`,
 * `payload_too_large` or `invalid_request`.
 */
export function jsonBody<Schema extends z.ZodMiniType<object>>(
  schema: Schema,
): MiddlewareHandler<HttpEnv, string, { in: { json: unknown }; out: { json: z.output<Schema> } }> {
  return async function jsonBody(c, next) {
    requireJson(c.req.raw.headers);
    c.req.addValidatedData("json", parseBody(schema, await readBody(c.req.raw)));
    await next();
  };
}

/** Parses and validates a body. Throws `invalid_request`. */
export function parseBody<Schema extends z.ZodMiniType>(schema: Schema, bytes: Uint8Array): z.output<Schema> {
  const body = schema.safeParse(decodeJson(bytes));
  if (!body.success) throw invalidRequest(body.error.issues);
  return body.data;
}

/** A byte order mark is ignored (RFC 8259, section 8.1). */
function decodeJson(bytes: Uint8Array): unknown {
  if (!isUtf8(bytes)) throw new ApiError("invalid_request", json.encoding);
  try {
    return parseJson(new TextDecoder().decode(bytes));
  } catch (error) {
    if (error instanceof SyntaxError) throw new ApiError("invalid_request", json.syntax);
    if (error instanceof RangeError) throw new ApiError("invalid_request", json.depth);
    throw error;
  }
}

function requireJson(headers: Headers): void {
  if (!JSON_MEDIA_TYPE.test(headers.get("Content-Type")?.trim() ?? "")) {
    throw new ApiError("unsupported_media_type", MESSAGES.unsupported_media_type.contentType);
  }
  if ((headers.get("Content-Encoding") ?? "identity").trim().toLowerCase() !== "identity") {
    const accepted = { "Accept-Encoding": "identity" };
    throw new ApiError("unsupported_media_type", MESSAGES.unsupported_media_type.contentEncoding, accepted);
  }
}

/** Reads a body. A body with a too large `Content-Length` stays unread. */
async function readBody({ headers, body }: Request): Promise<Uint8Array> {
  const announced = Number(headers.get("Content-Length") ?? MAX_BODY_BYTES);
  if (announced > MAX_BODY_BYTES) throw tooLarge();
  if (body === null) return new Uint8Array();
  const reader = body.getReader({ mode: "byob" });
  const bytes = await readAll(reader, announced);
  if (bytes.length <= announced) return bytes;
  await drain(reader, bytes, MAX_BODY_MS);
  throw tooLarge();
}

/**
 * Reads a stream to its end, or one byte more than `maxBytes`. It reads into one buffer: clients choose the chunk size, and each
 * short chunk kept by itself would take four kilobytes.
 */
async function readAll(reader: ReadableStreamBYOBReader, maxBytes: number): Promise<Uint8Array> {
  const length = maxBytes + 1;
  try {
    const read = () => reader.readAtLeast(length, new Uint8Array(length));
    const { value = new Uint8Array() } = await withDeadline("the client", MAX_BODY_MS, read);
    return value;
  } catch (error) {
    const isLate = error instanceof DeadlineExceeded;
    throw new ApiError("invalid_request", isLate ? bodyTooSlow(MAX_BODY_MS / 1_000) : bodyIncomplete);
  }
}

function tooLarge(): ApiError {
  return new ApiError("payload_too_large", MESSAGES.payload_too_large.body(MAX_BODY_BYTES));
}
