// The commands on a deployed database: that they go to the right one, do there what they do locally, and say in one line
// what stands against it. What is not proven here is how Cloudflare's own API answers.

import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { LOGINS, startCloudflareApi } from "../support/e2e/cloudflare-api.ts";
import { runScript } from "../support/e2e/petstore.ts";

// A command takes two seconds, and machines that run tests can be slow.
vi.setConfig({ testTimeout: 120_000 });

let api: Awaited<ReturnType<typeof startCloudflareApi>>;

// Each test has an account of its own: they go in any order, and begin with databases that are empty.
beforeEach(async () => {
  api = await startCloudflareApi(["petstore", "petstore-previews"]);
});

afterEach(() => api?.stop());

function keys(words: string[], more: NodeJS.ProcessEnv = {}) {
  return runScript("scripts/keys.ts", words, { ...api.environment, ...more });
}

function migrate(words: string[]) {
  return runScript("scripts/migrate.ts", words, api.environment);
}

describe.each([
  ["--remote", ["--remote"], "petstore", "petstore-previews"],
  ["--preview staging", ["--preview", "staging"], "petstore-previews", "petstore"],
])("with %s", (words, target, name, otherName) => {
  it("says how to bring a new database up to date, and works on it, and on no other, once it is", async () => {
    const early = await keys(["list", ...target]);
    expect([early.exitCode, early.stdout]).toEqual([1, ""]);
    expect(early.stderr).toMatch(
      new RegExp(`^the database of .* is not up to date: run npm run migrate -- ${words} once, .*\\n$`),
    );
    expect((await migrate(target)).stdout).toMatch(/^The database is up to date, with 0001_pets\.sql, /);
    expect((await migrate(target)).stdout).toBe("The database was up to date.\n");

    const create = ["create", "--name", "Acme", "--plan", "free", "--json", ...target];
    const { id } = JSON.parse((await keys(create)).stdout);
    const rows = (database: string) => api.database(database)?.prepare("SELECT id FROM keys").all();
    expect((await rows(name))?.results).toEqual([{ id }]);
    // The other one may have no tables yet.
    const others = await rows(otherName)?.catch(() => ({ results: [] }));
    expect(others?.results).not.toContainEqual({ id });
  });
});

it("all commands do what they do locally", async () => {
  await migrate(["--remote"]);
  const agreed = ["--plan", "enterprise", "--per-minute", "7", "--per-day", "70"];
  const created = await keys(["create", "--name", "Acme", ...agreed, "--json", "--remote"]);
  expect(created.stderr).toBe("");
  const { id, key } = JSON.parse(created.stdout);
  const rotated = JSON.parse((await keys(["rotate", id, "--grace", "60", "--json", "--remote"])).stdout);
  expect(rotated).toMatchObject({ id, name: "Acme", plan: "enterprise", perMinute: 7, perDay: 70 });
  expect(rotated.key).not.toBe(key);
  expect((await keys(["plan", id, "pro", "--remote"])).stdout).toContain("is on the pro plan");
  expect((await keys(["revoke", id, "--remote"])).stdout).toContain("is revoked");
  expect((await keys(["revoke", id, "--remote"])).exitCode).toBe(1);
  const listed = JSON.parse((await keys(["list", "--json", "--remote"])).stdout);
  const lastFour = rotated.key.slice(-4);
  expect(listed).toContainEqual(expect.objectContaining({ id, plan: "pro", state: "revoked", lastFour }));
});

it("whoever wrangler knows is known, and the credential is left in no file", async () => {
  const logins = Object.keys(LOGINS) as (keyof typeof LOGINS)[];
  const operators = await Promise.all(logins.map((login) => api.operator(login)));
  await runScript("scripts/migrate.ts", ["--remote"], operators[0]?.environment);
  // All commands come by the credential as this one does. Those that hand it on to wrangler are in deployment.test.ts.
  const listed = operators.map(({ environment }) => keys(["list", "--json", "--remote"], environment));
  for (const outcome of await Promise.all(listed)) {
    expect(outcome).toEqual({ exitCode: 0, stdout: "[]\n", stderr: "" });
  }
  const leaks = await Promise.all(operators.map((operator) => operator.leaks()));
  expect(leaks).toEqual(operators.map(() => []));
});

describe("each obstacle is reported in one line", () => {
  it.each([
    ["no login", { CLOUDFLARE_API_TOKEN: "" }, "you are not logged in to Cloudflare: run npx wrangler login"],
    [
      "a wrong token",
      { CLOUDFLARE_API_TOKEN: "x" },
      "Cloudflare's API refused: Authentication error (10000)",
    ],
    [
      "no network",
      { CLOUDFLARE_API_BASE_URL: "http://127.0.0.1:9/client/v4" },
      "Cloudflare's API can't be reached: ",
    ],
    [
      "no database in the account",
      { CLOUDFLARE_ACCOUNT_ID: "another-account" },
      "there is no database petstore in this account yet: run npm run setup, which makes it",
    ],
  ])("%s", async (_, more, problem) => {
    const { exitCode, stdout, stderr } = await keys(["list", "--remote", "--json"], more);
    expect([exitCode, stdout]).toEqual([1, ""]);
    expect(stderr).toMatch(/^keys failed: [^\n]+\n$/);
    expect(stderr).toContain(problem);
  });

  it("a preview without a name", async () => {
    const { exitCode, stderr } = await keys(["list", "--preview="]);
    expect([exitCode, stderr]).toEqual([1, "--preview must name a preview, such as staging\n"]);
  });
});
