// Each command of docs/operating.md does what it is there for. `./petstore` lines run with a key, files and databases of this test;
// production is a fake of Cloudflare's API. `npx wrangler` lines need an account: their options must exist.

import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { experimental_getWranglerCommands } from "wrangler";
import { recordBackup } from "../../scripts/backup/backup.ts";
import { migrate, openDatabases } from "../../scripts/cloudflare/database.ts";
import { apiError } from "../support/e2e/cloudflare-api.ts";
import { runPetstore } from "../support/e2e/in-process.ts";
import { type Outcome, runProcess } from "../support/e2e/petstore.ts";
import { sharedPetstore } from "../support/e2e/shared-petstore.ts";
import { useAccount } from "../support/e2e/use-account.ts";

const RUNBOOK = await readFile("docs/operating.md", "utf8");
/** They name a command, without what it needs. */
const NAMES = ["./petstore restore", "./petstore setup", "./petstore deploy"];
/** A part of wrangler's tree of commands. */
type Command = Pick<
  ReturnType<typeof experimental_getWranglerCommands>["registry"],
  "subtree" | "definition"
>;
/** They ask. */
const ASKING = /^(keys (revoke|rotate|end-grace)|restore)\b(?!.*--(yes|dry-run))/;

const { api, databaseOf, timeTravelOf } = await useAccount();
const [keys, pets] = [databaseOf("petstore-keys"), databaseOf("petstore-pets")];
let folder: string;
let state: string;
const petstore = sharedPetstore();

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "petstore-test-"));
  state = join(folder, "state");
  vi.stubEnv("INIT_CWD", folder);
  await migrate(pets, "pets");
  await migrate(keys, "keys");
  // Before the time of the example.
  vi.useFakeTimers({ toFake: ["Date"], now: new Date("2026-11-24T05:00:00Z") });
  await timeTravelOf("petstore-pets").bookmark();
  vi.useRealTimers();
  await runPetstore(["migrate", "--persist-to", state]);
  await writeFile(join(folder, "customers.csv"), "name,plan\nAnn,free\n");
});
afterAll(() => rm(folder, { recursive: true }));

/** The commands of the runbook, each once, in their order. */
function linesOf(program: string): string[] {
  const lines = RUNBOOK.matchAll(new RegExp(`\`(${program}\\s[^\`]+)\`|^\\$ (${program} .+)$`, "gm"));
  // A line of the text may end within a command.
  return [...new Set([...lines].map(([, span, typed]) => (span ?? typed ?? "").replace(/\s+/g, " ")))];
}

/** The words of a command, with values for what stands for one. */
function wordsOf(command: string, id: string): string[] {
  const values: Record<string, string> = {
    ...{ ID: id, TEXT: "a reason", CHARS: "abcd", NAME: "a name", DATE: "2099-12-31", N: "5" },
    ...{ URL: petstore.origin, FILE: "petstore-2.backup", DIR: folder, "/tmp/drill": join(folder, "drill") },
  };
  const words = command.match(/"[^"]*"|\S+/g) ?? [];
  return words.map((word) => values[word] ?? word.replaceAll('"', "").replace(/^key_\w{12}$/, id));
}

/** Runs a part of a line, on the databases that it selects. `secret` is that of the key `id`. */
async function run(command: string, id: string, piped: string): Promise<Outcome> {
  const [typed = ""] = command.replace(/^\.\/petstore /, "").split(/ [<>]/);
  const isLocal = !/--(remote|preview|persist-to|help|location|dry-run)\b|^(help|completion) /.test(typed);
  const options = [
    ...(ASKING.test(typed) || / - /.test(typed) ? ["--yes"] : []),
    ...(isLocal ? ["--persist-to", state] : []),
  ];
  return runPetstore([...new Set([...wordsOf(typed, id), ...options])], { piped });
}

/** What must have happened before a line. */
async function prepare(line: string, id: string): Promise<void> {
  if (line.includes("keys resume"))
    await runPetstore(["keys", "suspend", id, "--reason", "x", "--persist-to", state]);
  if (line.includes("--resume")) {
    api.intercept(async (request, _, send) => {
      if (request.endsWith("/restore")) throw apiError(502, 502, "Bad gateway");
      await send();
    });
    await runPetstore("restore --timestamp 2026-11-24T05:54:25Z --remote --yes");
    api.intercept();
  }
  if (/--from .*--remote/.test(line)) {
    const tables = {
      pets: ["pets", "creations"],
      keys: ["keys", "key_changes", "key_usage", "replaced_secrets"],
    };
    await pets.batch(tables.pets.map((table) => pets.prepare(`DELETE FROM ${table}`)));
    await keys.batch(tables.keys.toReversed().map((table) => keys.prepare(`DELETE FROM ${table}`)));
  }
}

it("the ./petstore lines of the runbook work", async () => {
  // The dashboard serves until a signal: dashboard.test.ts runs it.
  const lines = linesOf("./petstore").filter((line) => !NAMES.includes(line) && !/ dashboard\b/.test(line));
  expect(lines.length).toBeGreaterThan(30);
  const failures: object[] = [];
  for (const line of lines) {
    const created = await runPetstore([
      "keys",
      "create",
      "--name",
      line.slice(-99),
      "--plan",
      "free",
      "--json",
      "--persist-to",
      state,
    ]);
    const { id, key } = JSON.parse(created.stdout);
    await prepare(line, id);
    const [first = "", ...others] = line.split(" | ").filter((part) => part.startsWith("./petstore "));
    let outcome = await run(first, id, line.endsWith("ids.txt") ? id : key);
    for (const part of others) {
      const ids = JSON.parse(outcome.stdout).map((each: { id: string }) => each.id);
      outcome = await run(part, id, ids.join("\n"));
    }
    if (outcome.exitCode !== 0) failures.push({ line, ...outcome });
  }
  expect(failures).toEqual([]);
});

it.skipIf(process.platform === "win32")(
  "the lines for a crontab write a backup, keep as many as they say, and print nothing but that there was none for days",
  async () => {
    const lines = [...RUNBOOK.matchAll(/^[\d*]+(?: [\d*]+){4} (.*\/petstore .*)$/gm)].map(
      ([, line = ""]) => line,
    );
    const [write = "", check = ""] = lines;
    expect(lines).toHaveLength(2);
    // As cron reads a line, the first % without a backslash ends it.
    expect(lines.join()).not.toContain("%");
    const HOME = join(folder, "Jo's home");
    const backups = join(HOME, "backups");
    await mkdir(backups, { recursive: true });
    await writeFile(join(HOME, "petstore.env"), `export PETSTORE_PERSIST_TO='${state}'\n`);
    const earlier = Array.from({ length: 20 }, (_, i) => `petstore-local-2025-11-${i + 10}T031700Z.backup`);
    for (const name of earlier) await writeFile(join(backups, name), "");
    // Where the command looks for Node first: on many machines, cron's PATH has none.
    const bin = join(HOME, ".nvm/versions/node/v0/bin");
    await mkdir(bin, { recursive: true });
    await symlink(process.execPath, join(bin, "node"));
    const cron = (line: string) => {
      const command = line
        .replace("/srv/petstore/petstore", `"${resolve("petstore")}"`)
        .replace(" --remote", "");
      return runProcess("env", [
        "-i",
        `HOME=${HOME}`,
        "PATH=/usr/bin:/bin",
        "/bin/sh",
        "-c",
        `cd && ${command}`,
      ]);
    };
    const silence = { exitCode: 0, stdout: "", stderr: "" };
    expect(await cron(write)).toEqual(silence);
    expect(await cron(check)).toEqual(silence);
    const [, kept] = write.match(/--keep (\d+)/) ?? [];
    const left = (await readdir(backups)).sort();
    expect(left).toEqual([
      ...earlier.slice(1 - Number(kept)),
      expect.stringMatching(/^petstore-local-20(?!25).*Z\.backup$/),
    ]);
    const complete = await runPetstore(["restore", "--from", join(backups, left.at(-1) ?? ""), "--dry-run"]);
    expect(complete.stdout).toContain("Complete: ");
    const opened = await openDatabases({ kind: "local", state }, "keys");
    await recordBackup(opened.keys, { beganAtMs: Date.now() - 6 * 86_400_000, madeBy: "jo" });
    await opened.close();
    expect(await cron(check)).toMatchObject({
      exitCode: 1,
      stdout: "",
      stderr: expect.stringMatching(/^error: the latest backup is of \S+, 6 days ago: .*\n$/),
    });
  },
);

it("the npx wrangler lines of the runbook have commands and options that exist", () => {
  const lines = linesOf("npx wrangler");
  expect(lines.length).toBeGreaterThan(8);
  for (const line of lines) {
    let found: Command = experimental_getWranglerCommands().registry;
    for (const word of line.split(" ").slice(2)) found = found.subtree.get(word) ?? found;
    const { definition } = found;
    expect([line, definition?.type]).toEqual([line, "command"]);
    const options = definition?.type === "command" ? Object.keys(definition.args ?? {}) : [];
    for (const [, option] of line.matchAll(/ --([a-z][a-z-]+)/g)) expect(options, line).toContain(option);
  }
});
