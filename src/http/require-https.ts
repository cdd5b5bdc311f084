// Refuses plain HTTP: others can read the API key on its way, and a redirect would hide that from whoever configured the
// client. Loopback hosts are exempt, so that the service runs on a laptop. Only the URL decides: the platform makes it from
// the connection and the host, and routes no loopback host to a deployed Worker, so no client can switch the check off.

import type { MiddlewareHandler } from "hono";
import { errorResponse } from "./errors.ts";
import { MESSAGES } from "./messages.ts";
import type { HttpEnv } from "./request-context.ts";

/** URLs that leave no machine: localhost, *.localhost (RFC 6761, section 6.3), 127.0.0.0/8 and [::1]. */
const LOOPBACK = /^http:\/\/(?:localhost|[^/?#@]+\.localhost|127(?:\.\d+){3}|\[::1\])(?::\d+)?(?:[/?#]|$)/;

/** Answers `invalid_request` to plain HTTP, unless the host is a loopback host. */
export function requireHttps(): MiddlewareHandler<HttpEnv> {
  return async function requireHttps(c, next) {
    const { url } = c.req;
    if (url.startsWith("http:") && !LOOPBACK.test(url))
      return errorResponse(c, { code: "invalid_request", message: MESSAGES.invalid_request.plainHttp });
    await next();
  };
}
