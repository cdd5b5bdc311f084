// Keys of a plan that this version of the Worker does not know, as after a rollback of the version that knew it, and of a plan whose
// keys need limits of their own. test/e2e/keys.test.ts makes a key on each plan, and has what operators see of such a key.

import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { findRecord } from "../../src/keys/store.ts";
import { changePlan } from "../../src/operators/admin.ts";
import { interceptCalls } from "../support/worker/bindings.ts";
import { newClient, newKey, operator } from "../support/worker/client.ts";
import { takeLogLines } from "../support/worker/log-lines.ts";
import { pass } from "../support/worker/time.ts";

/** Does what an operator did with a later version. */
async function setPlan(id: string, plan: string, limit: number | null = null): Promise<void> {
  const sql = "UPDATE keys SET plan = ?2, per_minute = ?3, per_day = ?3 WHERE id = ?1";
  await env.KEYS_DB.prepare(sql).bind(id, plan, limit).run();
}

it.each([
  ["of-later", null, "is unknown to this version"],
  // Limits of a plan that is unknown are not used: they may mean something else there.
  ["of-later", 5, "is unknown to this version"],
  ["toString", null, "is unknown to this version"],
  ["enterprise", null, "needs limits of its own"],
])("a row with the plan %s and limits %s is an error that names both", async (plan, limit, why) => {
  const { id } = await newKey();
  await setPlan(id, plan, limit);
  const error = `the key ${id} has no limits: its plan, ${plan}, ${why}`;
  await expect(findRecord(env.KEYS_DB, id)).rejects.toThrow(error);
});

it("a request of such a key gets a 503, and the log names the key and the plan", async () => {
  const { id, get } = await newClient();
  await setPlan(id, "of-later");
  expect((await get("/v1/pets")).status).toBe(503);
  const cause = expect.stringContaining(`the key ${id} has no limits: its plan, of-later,`);
  const failures = [{ event: "database_unavailable", cause }];
  const lines = takeLogLines();
  expect(lines).toContainEqual({ event: "record_not_read", keyId: id, cause });
  expect(lines.at(-1)).toMatchObject({ event: "request", status: 503, failures });
  // The same without the key's object.
  interceptCalls(() => Promise.reject(new Error("a test")));
  expect((await get("/v1/pets")).status).toBe(503);
  expect(takeLogLines().at(-1)).toMatchObject({ failures: [{ event: "limiter_unavailable" }, ...failures] });
});

it("a key in use keeps its earlier limits for the time of an outage, 5 minutes and 10 s, and then gets those of its next plan", async () => {
  const { id, get } = await newClient({ plan: "pro" });
  const answer = async () => {
    const { status, headers } = await get("/v1/nowhere");
    return [status, headers.get("X-RateLimit-Limit")];
  };
  expect(await answer()).toEqual([404, "300"]);
  await setPlan(id, "of-later");
  pass(309_999);
  expect(await answer()).toEqual([404, "300"]);
  pass(1);
  expect((await answer())[0]).toBe(503);
  await changePlan(env.KEYS_DB, id, "business", undefined, operator());
  expect(await answer()).toEqual([404, "1000"]);
});
