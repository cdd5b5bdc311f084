// The Durable Object that is an API key.

import { logRun } from "../http/log.ts";
import { LimitedObject } from "../limits/object/limited-object.ts";
import { KEY_POLICY, type KeyRecord } from "./record.ts";
import { writeBan, writeUsage } from "./reports.ts";
import { findRecord } from "./store.ts";

export class ApiKey extends LimitedObject<Env, KeyRecord> {
  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env, {
      policy: KEY_POLICY,
      load: (id) => findRecord(env.KEYS_DB, id),
      onBan: (id, untilMs) => writeBan(env.KEYS_DB, id, untilMs),
      onUsage: (usage) => writeUsage(env.KEYS_DB, usage),
      log: logRun,
    });
  }
}
