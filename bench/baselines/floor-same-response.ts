// The minimum for a Worker with Hono that sends the headers and the body of a hot list: both constant, from the binding RESPONSE.

import { env } from "cloudflare:workers";
import { Hono } from "hono";

const { RESPONSE } = env as unknown as { RESPONSE: { headers: Record<string, string>; body: string } };
const { headers, body } = RESPONSE;

export default new Hono().get("/v1/pets", (c) => c.body(body, 200, headers));
