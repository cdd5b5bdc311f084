// The least that a Worker with Hono can do: a constant text.

import { Hono } from "hono";

export default new Hono().get("/", (c) => c.text("ok"));
