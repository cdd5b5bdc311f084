// Refuses what a read-only key may not do: all methods but GET and HEAD, whatever the path. It runs after the limit has counted the request,
// so a client that goes on costs its own limits, and gets a 429 like any other.

import type { MiddlewareHandler } from "hono";
import { errorResponse } from "../http/errors.ts";
import { MESSAGES } from "../http/messages.ts";
import type { KeysEnv } from "./limiter.ts";

const READING = ["GET", "HEAD"];

export const requireAccess: MiddlewareHandler<KeysEnv> = async (c, next) => {
  if (c.get("key").access === "write" || READING.includes(c.req.method)) return next();
  return errorResponse(c, { code: "forbidden", message: MESSAGES.forbidden.readOnly });
};
