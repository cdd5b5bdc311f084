// With a damaged database of pets, operators can do everything to keys, and the service knows and limits them.

import { writeFile } from "node:fs/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import { CONTENTS, databaseFile, openDatabases } from "../../scripts/cloudflare/database.ts";
import { HEADER } from "../../src/http/header-names.ts";
import { newKeyId, newSecret } from "../../src/keys/secret.ts";
import { createKey } from "../../src/operators/admin.ts";
import { runPetstore } from "../support/e2e/in-process.ts";
import { migrateEmpty } from "../support/e2e/migrations.ts";
import { emptyState } from "../support/e2e/petstore.ts";
import { serve } from "../support/e2e/serve.ts";

let state: string;
let remove: () => Promise<void>;
let service: Awaited<ReturnType<typeof serve>>;
/** A key for 5 requests a day: a minute may end during the test. */
let key: string;

beforeAll(async () => {
  ({ state, remove } = await emptyState());
  const databases = await openDatabases({ kind: "local", state }, ...CONTENTS);
  for (const contents of CONTENTS) await migrateEmpty(databases[contents], contents);
  const limits = { minute: 100, day: 5 };
  const newKey = { name: "a test", plan: "enterprise", expiresAtMs: null, limits } as const;
  key = (await createKey(databases.keys, newKey, { by: "a test", nowMs: Date.now() })).secret;
  await databases.close();
  // SQLite would recover the pages that are in its log.
  for (const suffix of ["", "-wal", "-shm"])
    await writeFile(databaseFile(state, "pets") + suffix, "damaged".repeat(1000));
  service = await serve(state);
});

afterAll(async () => {
  await service?.stop();
  await remove();
});

async function call(path: string, secret: string, init: RequestInit = {}) {
  const headers = { Authorization: `Bearer ${secret}`, "Content-Type": "application/json" };
  const response = await fetch(service.origin + path, { ...init, headers });
  return {
    status: response.status,
    body: await response.text(),
    remaining: response.headers.get(HEADER.rateLimitRemaining),
  };
}

it("GET /v1/usage and the check of keys work, lists and creations get a 503, and limits count them", async () => {
  expect((await call("/v1/usage", key)).status).toBe(200);
  expect((await call("/v1/pets", newSecret(newKeyId()))).status).toBe(401);
  const pet = { method: "POST", body: `{"name":"Rex","categoryId":1}` };
  const requests = [
    ["/v1/pets"],
    ["/v1/pets?limit=5"],
    ["/v1/pets/1"],
    ["/v1/pets", pet],
    ["/v1/pets"],
  ] as const;
  for (const [index, [path, init]] of requests.entries()) {
    const { status, body, remaining } = await call(path, key, init);
    expect([status, JSON.parse(body).code, remaining]).toEqual([503, "service_unavailable", `${4 - index}`]);
  }
  expect((await call("/v1/pets", key)).status).toBe(429);
  expect(JSON.parse((await call("/v1/usage", key)).body)).toMatchObject({
    day: { used: 5, remaining: 0 },
  });
});

it("npx petstore keys does all that it does", async () => {
  const run = async (line: string) => {
    const words = ["keys", ...line.split(" "), "--persist-to", state, "--json"];
    const { exitCode, stdout, stderr } = await runPetstore(words);
    expect([exitCode, stderr.includes("error")], stderr).toEqual([0, false]);
    return JSON.parse(stdout);
  };
  const { id } = await run("create --name shop --plan free");
  expect(await run("list --search shop")).toMatchObject([{ id, state: "active" }]);
  expect(await run(`show ${id}`)).toMatchObject({ id, windows: { minute: { used: 0 } } });
  const rotated = await run(`rotate ${id} --yes`);
  expect(await call("/v1/nowhere", rotated.key)).toMatchObject({ status: 404 });
  expect(await run(`plan ${id} pro`)).toMatchObject({ plan: "pro" });
  expect(await run(`revoke ${id} --yes`)).toMatchObject({ state: "revoked" });
  const changes: { change: string }[] = await run(`log ${id}`);
  expect(changes.map(({ change }) => change)).toEqual(["revoked", "plan", "rotated", "created"]);
});
