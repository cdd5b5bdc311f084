// The minimum for a Worker with Hono: a constant text.

import { Hono } from "hono";

export default new Hono().get("/", (c) => c.text("ok"));
