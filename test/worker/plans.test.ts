// Keys of a plan that this version of the Worker does not know, as after a rollback of the version that knew it, and of a plan whose
// keys need limits of their own. test/e2e/keys.test.ts makes a key on each plan.

import { env } from "cloudflare:workers";
import { afterEach, expect, it } from "vitest";
import { stateOf } from "../../src/keys/record.ts";
import { findRecord } from "../../src/keys/store.ts";
import { changePlan, revokeKey } from "../../src/operators/admin.ts";
import { listKeys } from "../../src/operators/records.ts";
import { interceptCalls, newClient, newKey, operator, pass } from "../support/worker/client.ts";
import { takeLogLines } from "../support/worker/log-lines.ts";

// A file of tests that follows finds only its own lines.
afterEach(() => void takeLogLines());

/** Does what an operator did with a later version. */
async function setPlan(id: string, plan: string, limit: number | null = null): Promise<void> {
  const sql = "UPDATE keys SET plan = ?2, per_minute = ?3, per_day = ?3 WHERE id = ?1";
  await env.KEYS_DB.prepare(sql).bind(id, plan, limit).run();
}

const noLimits = (id: string, plan: string) =>
  `the key ${id} has no limits: its plan, ${plan}, ${plan === "enterprise" ? "needs limits of its own" : "is unknown to this version"}`;

it.each([
  ["of-later", null],
  // Limits of a plan that is unknown are not used: they may mean something else there.
  ["of-later", 5],
  ["toString", null],
  ["enterprise", null],
])(
  "a row with the plan %s and the limits %s is an error that names the key and the plan",
  async (plan, limit) => {
    const { id } = await newKey();
    await setPlan(id, plan, limit);
    await expect(findRecord(env.KEYS_DB, id)).rejects.toThrow(noLimits(id, plan));
  },
);

it("requests of such a key get a 503, and the log names the key and the plan", async () => {
  const { id, get } = await newClient();
  await setPlan(id, "of-later");
  for (const path of ["/v1/pets", "/v1/usage"]) {
    const response = await get(path);
    expect(response.status, path).toBe(503);
    expect(await response.json()).toMatchObject({ code: "service_unavailable" });
    const cause = expect.stringContaining(noLimits(id, "of-later"));
    const lines = takeLogLines();
    expect(lines, path).toContainEqual({ event: "record_not_read", keyId: id, cause });
    const failures = [{ event: "database_unavailable", cause }];
    expect(lines, path).toContainEqual(expect.objectContaining({ event: "request", status: 503, failures }));
  }
  // With a plan that this version knows, it works again.
  await changePlan(env.KEYS_DB, id, "pro", undefined, operator());
  const response = await get("/v1/pets");
  expect([response.status, response.headers.get("X-RateLimit-Limit")]).toEqual([200, "300"]);
});

it("the same without the key's object", async () => {
  const { id, get } = await newClient();
  await setPlan(id, "of-later");
  interceptCalls(() => Promise.reject(new Error("a test")));
  expect((await get("/v1/pets")).status).toBe(503);
  const cause = expect.stringContaining(noLimits(id, "of-later"));
  expect(takeLogLines().at(-1)).toMatchObject({
    failures: [{ event: "limiter_unavailable" }, { event: "database_unavailable", cause }],
  });
});

it("a key in use keeps its earlier limits for the time of an outage, 5 minutes and 10 s", async () => {
  const { id, get } = await newClient({ plan: "pro" });
  expect((await get("/v1/nowhere")).status).toBe(404);
  await setPlan(id, "of-later");
  pass(309_999);
  const response = await get("/v1/nowhere");
  expect([response.status, response.headers.get("X-RateLimit-Limit")]).toEqual([404, "300"]);
  pass(1);
  expect((await get("/v1/nowhere")).status).toBe(503);
});

it("operators see such a key among the others, and can revoke it", async () => {
  const { id } = await newKey();
  const other = await newKey({ plan: "free" });
  await setPlan(id, "of-later");
  const { keys } = await listKeys(env.KEYS_DB, Date.now());
  const listed = (wanted: string) => keys.find((key) => key.id === wanted);
  expect(listed(id)).toMatchObject({ plan: "of-later", limits: undefined, states: ["active"] });
  expect(listed(other.id)).toMatchObject({ plan: "free", limits: { minute: 60, day: 1_000 } });
  const revoked = await revokeKey(env.KEYS_DB, id, operator());
  expect(revoked.ok && stateOf(revoked.key, Date.now())).toBe("revoked");
});
