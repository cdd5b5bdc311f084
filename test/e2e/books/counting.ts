// The books, with the number of hops that each response has waited for.

import { Hono } from "hono";
import type { LimitsEnv } from "../../../src/limits/index.ts";
import books from "./books.ts";

export { ReaderKey } from "./books.ts";

export default new Hono<LimitsEnv>()
  .use(async (c, next) => {
    let hops = 0;
    const hop = () => {
      hops += 1;
    };
    c.set("timing", { decided: () => {}, hop });
    await next();
    c.header("X-Hops", `${hops}`);
  })
  .route("/", books);
