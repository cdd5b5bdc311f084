// The Durable Object that is an API key.

import { DurableObject } from "cloudflare:workers";
import { logRun } from "../http/log.ts";
import { RUNTIME } from "../lib/workers-runtime.ts";
import { limitedObject } from "../limits/index.ts";
import { KEY_POLICY } from "./key.ts";
import { writeBan, writeUsage } from "./reports.ts";
import { findKey } from "./store.ts";

export class ApiKey extends limitedObject(DurableObject<Env>, (env: Env) => ({
  policy: KEY_POLICY,
  runtime: RUNTIME,
  load: (id) => findKey(env.KEYS_DB, id),
  onBan: (id, untilMs) => writeBan(env.KEYS_DB, id, untilMs),
  onUsage: (usage) => writeUsage(env.KEYS_DB, usage),
  log: logRun,
})) {}
