// Refuses plain HTTP: others can read the API key in transit, and a redirect would hide the misconfiguration. Loopback hosts are
// exempt, so that the service runs locally. Clients can't bypass the check: the platform derives the URL from the connection and
// the host, and routes no loopback host to a deployed Worker.

import type { MiddlewareHandler } from "hono";
import { errorResponse } from "./errors.ts";
import { MESSAGES } from "./messages.ts";
import type { HttpEnv } from "./request-context.ts";

/** Loopback hosts: localhost, *.localhost (RFC 6761, section 6.3), 127.0.0.0/8 and [::1]. */
const LOOPBACK = /^http:\/\/(?:localhost|[^/?#@]+\.localhost|127(?:\.\d+){3}|\[::1\])(?::\d+)?(?:[/?#]|$)/;

export const requireHttps: MiddlewareHandler<HttpEnv> = async (c, next) => {
  const url = c.req.url;
  if (!url.startsWith("http:") || LOOPBACK.test(url)) return next();
  return errorResponse(c, { code: "invalid_request", message: MESSAGES.invalid_request.plainHttp });
};
