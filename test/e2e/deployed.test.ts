// The commands on a deployed database. The API is a stand-in.

import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { LOGINS, startCloudflareApi } from "../support/e2e/cloudflare-api.ts";
import { runScript } from "../support/e2e/petstore.ts";

// A command takes two seconds, or much longer on a slow machine.
vi.setConfig({ testTimeout: 120_000 });

let api: Awaited<ReturnType<typeof startCloudflareApi>>;

// Each test has its own account with empty databases.
beforeEach(async () => {
  api = await startCloudflareApi(["petstore", "petstore-previews"]);
});

afterEach(() => api?.stop());

function keys(args: string[], environment?: NodeJS.ProcessEnv) {
  return runCommand("keys", args, environment);
}

function migrate(args: string[], environment?: NodeJS.ProcessEnv) {
  return runCommand("migrate", args, environment);
}

function runCommand(command: string, args: string[], environment: NodeJS.ProcessEnv = {}) {
  const words = [`scripts/${command}.ts`, ...args];
  return runScript("scripts/main.ts", words, { ...api.environment, ...environment });
}

describe.each([
  ["--remote", ["--remote"], "petstore", "petstore-previews"],
  ["--preview staging", ["--preview", "staging"], "petstore-previews", "petstore"],
])("with %s", (options, target, name, otherName) => {
  it("the commands ask for pending migrations to be applied, and then use only that database", async () => {
    const early = await keys(["list", ...target]);
    expect([early.exitCode, early.stdout]).toEqual([1, ""]);
    expect(early.stderr).toMatch(
      new RegExp(
        `error: the (production )?database.* has pending migrations: apply them with npm run migrate -- ${options}\\n$`,
      ),
    );
    expect((await migrate(target)).stdout).toContain("0001_pets.sql");
    expect((await migrate(target)).stdout).not.toContain(".sql");

    const create = ["create", "--name", "Acme", "--plan", "free", "--json", ...target];
    const { id } = JSON.parse((await keys(create)).stdout);
    const rows = (database: string) => api.database(database)?.prepare("SELECT id FROM keys").all();
    expect((await rows(name))?.results).toEqual([{ id }]);
    // The other database may have no tables.
    const others = await rows(otherName)?.catch(() => ({ results: [] }));
    expect(others?.results).not.toContainEqual({ id });
  });
});

it("every command of npm run keys works on a deployed database", async () => {
  await migrate(["--remote"]);
  const agreed = ["--plan", "enterprise", "--per-minute", "7", "--per-day", "70"];
  const created = await keys(["create", "--name", "Acme", ...agreed, "--json", "--remote"]);
  expect(created.exitCode).toBe(0);
  const { id, key } = JSON.parse(created.stdout);
  const rotated = JSON.parse(
    (await keys(["rotate", id, "--grace", "60", "--yes", "--json", "--remote"])).stdout,
  );
  expect(rotated).toMatchObject({ id, name: "Acme", plan: "enterprise", perMinute: 7, perDay: 70 });
  expect(rotated.key).not.toBe(key);
  expect((await keys(["plan", id, "pro", "--remote"])).stdout).toContain(`Changed ${id} ("Acme"): pro plan`);
  expect((await keys(["revoke", id, "--yes", "--remote"])).stdout).toContain(`Revoked ${id}`);
  expect((await keys(["revoke", id, "--yes", "--remote"])).exitCode).toBe(1);
  const listed = JSON.parse((await keys(["list", "--json", "--remote"])).stdout);
  const lastFour = rotated.key.slice(-4);
  expect(listed).toContainEqual(expect.objectContaining({ id, plan: "pro", state: "revoked", lastFour }));
});

it("the commands accept every login of wrangler, and write the credential to no file", async () => {
  const logins = Object.keys(LOGINS) as (keyof typeof LOGINS)[];
  const operators = await Promise.all(logins.map((login) => api.operator(login)));
  await migrate(["--remote"], operators[0]?.environment);
  // All commands find the credential like this one. deployment.test.ts has those that pass it on to wrangler.
  const listed = operators.map(({ environment }) => keys(["list", "--json", "--remote"], environment));
  for (const outcome of await Promise.all(listed)) {
    expect(outcome).toMatchObject({ exitCode: 0, stdout: "[]\n" });
  }
  const leaks = await Promise.all(operators.map((operator) => operator.leaks()));
  expect(leaks).toEqual(operators.map(() => []));
});

describe("a failure is reported in one line", () => {
  it.each([
    ["no login", { CLOUDFLARE_API_TOKEN: "" }, "not logged in to Cloudflare: run npx wrangler login"],
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
      "there is no database petstore in this account yet: run npm run setup, which creates it",
    ],
  ])("%s", async (_, environment, problem) => {
    const { exitCode, stdout, stderr } = await migrate(["--remote"], environment);
    expect([exitCode, stdout]).toEqual([1, ""]);
    expect(stderr).toMatch(/^[^\n]+\nerror: [^\n]+\n$/);
    expect(stderr).toContain(problem);
  });

  it("a preview without a name", async () => {
    const { exitCode, stderr } = await migrate(["--preview="]);
    expect([exitCode, stderr]).toEqual([
      2,
      expect.stringContaining("It must name a preview, such as staging"),
    ]);
  });
});
