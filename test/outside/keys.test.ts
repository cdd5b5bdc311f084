// The command line that makes keys: what it prints, for people and for programs, and how it refuses.

import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { applyMigrations } from "../../scripts/database.ts";
import { emptyState, keys } from "./petstore.ts";

let state: string;
let remove: () => Promise<void>;

beforeAll(async () => {
  ({ state, remove } = await emptyState());
  await applyMigrations(state);
});

afterAll(() => remove());

describe("npm run keys -- create", () => {
  it("prints the key once, and list never", async () => {
    const { stdout } = await keys("create", "--name", "Jo's shop", "--plan", "free", "--persist-to", state);
    const [secret = "", ...rest] = stdout.split("\n");
    expect(secret).toMatch(/^pet_[0-9A-Za-z]{38}$/);
    expect(rest.join("\n")).toMatch(
      /It is key_\w{12} \("Jo's shop"\), on the free plan: 60 requests a minute, 1000 a day\./,
    );

    const table = (await keys("list", "--persist-to", state)).stdout;
    const row = table.split("\n").find((line) => line.includes("Jo's shop"));
    expect(row).toMatch(
      /^key_\w{12} {2}Jo's shop {2}free +60 +1000 +\w{4} +\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ +never +active$/,
    );
    expect(row).toContain(secret.slice(-4));
    expect(table).not.toContain(secret.slice(0, 20));
  });

  it("with --json, prints exactly one JSON value, and so does list", async () => {
    const words = [
      "--name",
      "agreed",
      "--plan",
      "enterprise",
      "--per-minute",
      "7",
      "--per-day",
      "1000000000",
    ];
    const expires = ["--expires", "2099-12-31T23:59:59+01:00"];
    const created = await keys("create", ...words, ...expires, "--json", "--persist-to", state);
    const { id, key, ...rest } = JSON.parse(created.stdout);
    expect(rest).toEqual({ name: "agreed", plan: "enterprise", perMinute: 7, perDay: 1_000_000_000 });
    expect(created.stderr).toBe("");

    const listed = await keys("list", "--json", "--persist-to", state);
    const found = JSON.parse(listed.stdout).find((record: { id: string }) => record.id === id);
    expect(found).toEqual({
      id,
      name: "agreed",
      plan: "enterprise",
      perMinute: 7,
      perDay: 1_000_000_000,
      lastFour: key.slice(-4),
      createdAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/),
      expiresAt: "2099-12-31T22:59:59Z",
    });
    expect(listed.stdout).not.toContain(key);
  });
});

describe("a wrong use ends with 1 and one line that says what to do", () => {
  const create = (...words: string[]) => ["create", "--name", "x", ...words];
  const enterprise = (perMinute: string, perDay: string) =>
    create("--plan", "enterprise", "--per-minute", perMinute, "--per-day", perDay);

  it.each([
    [[], "the command must be create or list"],
    [["frobnicate"], "the command must be create or list"],
    [["delete", "1"], "the command must be create or list"],
    [["list", "all"], '"all" is too much, or the -- after "npm run keys" is missing'],
    [["list", "--name", "x"], "--name belongs to create"],
    [["create", "--plan", "free"], "--name is missing"],
    [["create", "--name=", "--plan", "free"], "--name must be 1 to 255 characters"],
    [["create", "--name", "x".repeat(256), "--plan", "free"], "--name must be 1 to 255 characters"],
    [create(), "--plan must be one of free, pro, business, enterprise"],
    [create("--plan", "gold"), "--plan must be one of"],
    [create("--plan", "toString"), "--plan must be one of"],
    [create("--plan", "enterprise"), "enterprise needs --per-minute and --per-day"],
    [create("--plan", "enterprise", "--per-day", "5"), "enterprise needs --per-minute and --per-day"],
    [create("--plan", "free", "--per-day", "5"), "--per-minute and --per-day belong to enterprise"],
    [enterprise("0", "5"), "--per-minute must be a number from 1 to 1000000000"],
    [enterprise("5", "1000000001"), "--per-day must be a number from 1 to 1000000000"],
    [enterprise("1e3", "5"), "--per-minute must be a number"],
    [enterprise("5", "9".repeat(400)), "--per-day must be a number"],
    [create("--plan", "free", "--expires", "2020-01-01"), "--expires must lie ahead"],
    [create("--plan", "free", "--expires", "2027-02-31"), "--expires must be a date"],
    [create("--plan", "free", "--expires", "2027-01-31T25:00:00Z"), "--expires must be a date"],
    [create("--plan", "free", "--expires", "2027-01-31T12:00:00"), "--expires must be a date"],
    [create("--plan", "free", "--expires", "tomorrow"), "--expires must be a date"],
    [create("--plan", "free", "--expires", "2027-01-31T12:00Z"), "--expires must be a date"],
    [create("--plan", "free", "--expires", "2027-01-31T24:00:00Z"), "--expires must be a date"],
    [create("--plan", "free", "--expires", "9999-12-31T23:59:59-23:59"), "--expires must be a date"],
    [create("--plan", "free", "--colour", "red"), "Unknown option '--colour'"],
    [create("--plan", "free", "--per.minute", "5"), "Unknown option '--per.minute'"],
    [["list", "--persist-to="], "--persist-to must name a folder"],
    [["create", "--name", "--plan", "free"], "Option '--name' argument is ambiguous"],
  ])("%j", async (words, problem) => {
    const { exitCode, stdout, stderr } = await keys("--persist-to", state, ...words);
    expect(exitCode).toBe(1);
    expect(stdout).toBe("");
    expect(stderr).toMatch(/^[^\n]+\n$/);
    expect(stderr).toContain(problem);
  });

  it("no database yet: says how to get one, and makes none", async () => {
    for (const nowhere of [`${state}-missing`, dirname(state), import.meta.filename]) {
      const { exitCode, stderr } = await keys("list", "--persist-to", nowhere);
      expect([exitCode, stderr]).toEqual([
        1,
        `there is no database in ${nowhere} yet: run npm start -- --persist-to ${nowhere} once, which makes it\n`,
      ]);
    }
    expect(existsSync(`${state}-missing`) || existsSync(join(dirname(state), "v3"))).toBe(false);
  });

  it("quotes a folder with a space, so that the line can be pasted", async () => {
    const { stderr } = await keys("list", "--persist-to", `${state} two`);
    expect(stderr).toContain(`npm start -- --persist-to '${state} two' once`);
  });
});
