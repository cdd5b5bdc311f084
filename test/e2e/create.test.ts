// ./petstore keys create --from, and results that are lost: full disks, closed and full pipes, interruptions. Most tests use
// production's database, on a fake of Cloudflare's API, and real processes.

import { once } from "node:events";
import { existsSync, openSync } from "node:fs";
import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { createDatabases, migrate, openDatabases } from "../../scripts/cloudflare/database.ts";
import { BATCH } from "../../scripts/commands/keys/create.ts";
import { newKeyId } from "../../src/keys/secret.ts";
import { sha256 } from "../../src/lib/sha256.ts";
import { createKey, revokeKey, setExpiry, setNote, setRef } from "../../src/operators/admin.ts";
import type { NewKey } from "../../src/operators/changes.ts";
import { runPetstore } from "../support/e2e/in-process.ts";
import { emptyState, startPetstore } from "../support/e2e/petstore.ts";
import { useAccount } from "../support/e2e/use-account.ts";
import { limitsWith } from "../support/key-record.ts";

const { api, databaseOf } = await useAccount(["petstore-keys"]);
const database = databaseOf("petstore-keys");
const operator = () => ({ by: "a test", nowMs: Date.now() });
const newKey = (name: string) => createKey(database, { name, plan: "free", expiresAtMs: null }, operator());
let folder: string;

beforeAll(async () => {
  await migrate(database, "keys");
});
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "petstore-test-"));
});
afterEach(async () => {
  api.intercept();
  const tables = ["replaced_secrets", "keys", "key_changes", "key_usage"];
  await database.batch(tables.map((table) => database.prepare(`DELETE FROM ${table}`)));
  await rm(folder, { recursive: true });
});

interface Row {
  id: string;
  name: string;
  hash: string;
}

/** The keys in the database, the ids of equal names in one entry. */
async function keysByName(of = database): Promise<Map<string, Row[]>> {
  const select = of.prepare(
    "SELECT id, name, lower(hex(hash)) AS hash FROM keys WHERE revoked_at_ms IS NULL",
  );
  const { results } = await select.all<Row>();
  return Map.groupBy(results, ({ name }) => name);
}

const HEADER = "name,plan,per_minute,per_day,expires";

/** Writes a file of keys. Returns its path. */
async function fileOf(lines: string[] | number, header = "name,plan"): Promise<string> {
  const path = join(folder, "customers.csv");
  const all =
    typeof lines === "number" ? Array.from({ length: lines }, (_, index) => `n${index},pro`) : lines;
  await writeFile(path, [header, ...all, ""].join("\n"));
  return path;
}

/** Runs `create --from` with a file of these lines. */
async function createFrom(lines: string[], header?: string) {
  return runPetstore(`keys create --from ${await fileOf(lines, header)} --remote`);
}

/** Starts `./petstore keys LINE`. */
function start(line: string, stdout: number | "pipe", shell = "") {
  return startPetstore(["keys", ...line.split(" ")], { stdout, shell });
}

/** Calls `act` instead of the `count`th creation of a batch. */
function atBatch(count: number, act: (send: () => Promise<void>) => Promise<void>): void {
  let batches = 0;
  api.intercept(async (_, body, send) => {
    if (body.includes("INSERT INTO keys")) batches += 1;
    await (body.includes("INSERT INTO keys") && batches === count ? act(send) : send());
  });
}

/** The lines of an output, each of which must be whole, after the header. */
async function shownIn(path: string): Promise<string[][]> {
  const content = await readFile(path, "utf8");
  expect(content.endsWith("\n")).toBe(true);
  const [header, ...lines] = content.trimEnd().split("\n");
  expect(header).toBe("name,id,key");
  return lines.map((line) => line.split(","));
}

describe("a key that could not be shown", () => {
  it.runIf(existsSync("/dev/full")).each(["", " --json"])(
    "is named, with what to do, on a full disk%s",
    async (json) => {
      const created = start(`create --name lost --plan free --remote${json}`, openSync("/dev/full", "w"));
      const { exit, stderr } = await created.ended;
      const [{ id = "" } = {}] = (await keysByName()).get("lost") ?? [];
      const advice = `replace it with ./petstore keys rotate ${id} --remote, or end it with ./petstore keys revoke ${id} --remote`;
      expect(exit).toBe(1);
      expect(stderr).toMatch(
        new RegExp(
          `error: the new key of ${id} exists, and nobody has seen it \\(.*ENOSPC.*\\): ${advice}\n$`,
        ),
      );
      expect(stderr).not.toContain("Created");
      // The next rotation must not end the grace that this one has begun.
      const line = `rotate ${id} --grace 60 --yes --remote${json}`;
      const rotated = await start(line, openSync("/dev/full", "w")).ended;
      const again = advice.replace(`rotate ${id}`, `rotate ${id} --grace 60`);
      expect([rotated.exit, rotated.stderr.includes(again)]).toEqual([1, true]);
    },
  );

  it("is named also if the reader has closed the pipe, which only ends other results", async () => {
    const { key } = await newKey("x");
    const run = (line: string) => {
      const { child, ended } = start(line, "pipe");
      child.stdout?.destroy();
      return ended;
    };
    const { exit, stderr } = await run(`rotate ${key.id} --yes --remote`);
    expect([exit, stderr]).toEqual([1, expect.stringContaining(`./petstore keys rotate ${key.id} --remote`)]);
    for (const line of ["list --json --remote", "--help"])
      expect(await run(line)).toMatchObject({ exit: 0, stderr: expect.not.stringContaining("error") });
  });

  it("of several that are rotated is the only one: no other is rotated", async () => {
    const ids: string[] = [];
    for (const name of ["a", "b", "c"]) ids.push((await newKey(name)).key.id);
    const words = "keys rotate - --grace 60 --yes --remote".split(" ");
    const { child, ended } = startPetstore(words, { stdin: ids.join("\n") });
    api.intercept(async (_, body, send) => {
      if (body.includes("'rotated'") && body.includes(`${ids[1]}`)) child.stdout?.destroy();
      await send();
    });
    const { exit, stderr } = await ended;
    expect([exit, stderr]).toEqual([1, expect.stringContaining("\nChanged 2 of 3 keys.\n")]);
    expect(stderr).toContain(`error: the new key of ${ids[1]} exists, and nobody has seen it (`);
    expect(stderr).toContain(`./petstore keys rotate ${ids[1]} --grace 60 --remote`);
    const rotations = await database.prepare("SELECT key_id FROM key_changes WHERE change = 'rotated'").all();
    expect(rotations.results).toEqual([{ key_id: ids[0] }, { key_id: ids[1] }]);
  });

  it.runIf(existsSync("/dev/full"))("other results that could not be written fail too", async () => {
    const problem = expect.stringMatching(/(^|\n)error: the output could not be written: ENOSPC.*\n$/);
    for (const line of ["list --remote", "--help"])
      expect(await start(line, openSync("/dev/full", "w")).ended).toMatchObject({ exit: 1, stderr: problem });
  });
});

it("a result that is larger than a pipe is complete, also if the command fails", async () => {
  const ids = Array.from({ length: 5_000 }, newKeyId);
  const words = "keys resume - --yes --json --remote".split(" ");
  const { child, ended } = startPetstore(words, { stdin: ids.join("\n") });
  const output = child.stdout as Readable;
  // By now the process has filled the pipe.
  await once(output, "readable");
  const printed = await text(output);
  expect([(await ended).exit, JSON.parse(printed).length]).toEqual([1, 5_000]);
});

describe("./petstore keys create --from", () => {
  it("takes columns in any order, quotes, and what Excel writes; prints a line for each key", async () => {
    const header = "\uFEFFplan,expires,name,per_day,per_minute,Note,REF\r";
    const path = await fileOf(
      [
        'enterprise,2099-12-31,"Jo ""J"", Ltd.",1000,50,"by invoice, late",C-7\r',
        "pro,,Ann's shop,,,,\r",
        "\r",
      ],
      header,
    );
    const { exitCode, stdout, stderr } = await runPetstore(`keys create --from ${path} --by Maria --remote`);
    const keys = await keysByName();
    const [jo] = keys.get('Jo "J", Ltd.') ?? [];
    const [ann] = keys.get("Ann's shop") ?? [];
    expect(exitCode).toBe(0);
    expect(stdout.replaceAll(/pet_\w{50}/g, "KEY")).toBe(
      `name,id,key\n"Jo ""J"", Ltd.",${jo?.id},KEY\nAnn's shop,${ann?.id},KEY\n`,
    );
    expect(stdout.match(/pet_\w{50}/g)?.map(sha256)).toEqual([jo?.hash, ann?.hash]);
    expect(stderr).toContain("Created 2 keys. Lines skipped: 0.\n");
    const changes = await runPetstore(`keys log ${jo?.id} --json --remote`);
    const to = "enterprise 50/minute 1000/day, expires 2099-12-31T00:00:00Z, ref C-7, note by invoice, late";
    expect(JSON.parse(changes.stdout)).toMatchObject([{ change: "created", to, by: "Maria" }]);
  });

  it("lists every problem of a file with its line, and creates nothing", async () => {
    const { secret } = await newKey("x");
    const quote = "a line break, or a quote in the wrong place";
    const lines = {
      "ok,pro,,,": undefined,
      "gold,gold,,,": 'plan "gold": Allowed choices are free, pro, business, enterprise.',
      ",pro,,,": 'name "": It must be 1 to 255 characters',
      [`${secret},pro,,,`]: 'name "pet_…": It must not contain an API key.',
      [`swapped,${secret},,,`]: 'plan "pet_…": Allowed choices are',
      "a\u200bb,pro,,,": 'name "a?b": It must have printable characters only, and has U+200B.',
      "fixed,pro,1,,": "per_minute and per_day are for enterprise only: pro has fixed limits",
      "half,enterprise,1,,": "enterprise needs per_minute and per_day",
      "zero,enterprise,0,5,":
        'per_minute "0": It must be an integer from 1 to 1000000000, without leading zeros.',
      "point,enterprise,50,1.000,": 'per_day "1.000": It must be an integer',
      "less,enterprise,5,4,": "the day's limit (4) is smaller than the minute's (5)",
      "past,pro,,,2020-01-01": 'expires "2020-01-01": It must be in the future.',
      "day,pro,,,31.12.2027": 'expires "31.12.2027": It must be a UTC date',
      " OK,free,,,": "line 2 has the same name",
      "short,pro": "it has 2 fields, and the header 5, separated by commas",
      "long,pro,,,,x": "it has 6 fields, and the header 5, separated by commas",
      '"two,pro,,,': `field 1 has ${quote}`,
      'lines",pro,,,': `field 1 has ${quote}`,
      'lone,"pro,,,': `field 2 has ${quote}`,
      '"a" b,pro,,,': `field 1 has ${quote}`,
    };
    const { exitCode, stdout, stderr } = await createFrom(Object.keys(lines), HEADER);
    const path = join(folder, "customers.csv");
    const problems = Object.values(lines).flatMap((each, index) =>
      each ? [`${path}:${index + 2}: ${each}`] : [],
    );
    const printed = stderr.trimEnd().split("\n");
    const last = `error: nothing was created: ${path} has ${problems.length} problems`;
    expect([exitCode, stdout, printed.pop()]).toEqual([2, "", last]);
    expect(printed.map((line, index) => line.slice(0, problems[index]?.length))).toEqual(problems);
    expect([...(await keysByName()).keys()]).toEqual(["x"]);
  });

  it.each([
    ["name", "", ":1: the column plan is missing; its fields are separated by commas"],
    ["name,plan,notes", "a,pro,b", ':1: column 3, "notes", is unknown: leave it out; its fields are'],
    ["name,plan,name", "a,pro,b", ":1: the column name is there twice; its fields are separated by commas"],
    ["name;plan", "a,pro", ":2: it has 1 field, and the header 2, separated by semicolons"],
    ["name;plan;;", "a;pro;;b", ":2: it has 4 fields, and the header 2"],
    ["name;;plan", "a;b;pro", ":2: field 2 has a value, and its column no name"],
    ["name,plan", "", "has no keys after its header"],
    ["", "", "is empty: its first line must name the columns: name, plan; optional per_minute"],
    ["name,plan", Buffer.from([0xe4]), "is not UTF-8"],
  ])("refuses a file that begins with %s and has %s", async (header, line, problem) => {
    const path = join(folder, "customers.csv");
    await writeFile(path, Buffer.concat([Buffer.from(`${header}\n`), Buffer.from(line)]));
    const { exitCode, stdout, stderr } = await runPetstore(`keys create --from ${path} --remote`);
    expect([exitCode, stdout]).toEqual([2, ""]);
    expect(stderr).toMatch(/^([^\n]+\nerror: nothing was created: \S+ has 1 problem|error: [^\n]+)\n$/);
    expect(stderr).toContain(problem);
  });

  it.each([
    ["Name;Plan;;\r", 'Jo; Pro;;\r\n "A; B" ;free;;\r\n;;;\r'],
    ["name,\tPLAN", '\u00a0Jo,  pro\n" A; B ", "free"'],
    ["sep=;\r\nname;plan;expires\r", 'Jo;pro;Never\r\n"A; B";free;\r'],
    ["PLAN\tPer Minute\tname\tper-day", 'pro\t\tJo\t\nfree\t\t"A; B"\t'],
  ])("takes what spreadsheets write: %j", async (header, lines) => {
    const { exitCode, stdout } = await createFrom([lines], header);
    expect([exitCode, stdout.replaceAll(/,key_.*/g, "")]).toEqual([0, "name,id,key\nJo\nA; B\n"]);
  });

  it("a name that a key has is skipped, and each difference is named, with the command that ends it", async () => {
    const create = async (name: string, more: Partial<NewKey> = {}) =>
      (await createKey(database, { name, plan: "free", expiresAtMs: null, ...more }, operator())).key;
    const [same, used, ended] = [await create("Mu\u0308ller"), await create("used"), await create("O'Neill")];
    const agreed = await create("agreed", { plan: "enterprise", limits: limitsWith({ minute: 5, day: 50 }) });
    const twin = await create("twin", { plan: "pro" });
    await create("twin");
    // A later key that is revoked does not stand for the one that works.
    for (const { id } of [ended, await create("used")]) await revokeKey(database, id, operator());
    const usage = "INSERT INTO key_usage VALUES (?1, ?2, 'a', 1, 1, '{}', '{}', ?3, NULL, 0)";
    const today = new Date().toISOString().slice(0, 10);
    await database.prepare(usage).bind(today, used.id, Date.now()).run();
    const { exitCode, stdout, stderr } = await createFrom(
      [
        "M\u00dcLLER ,free,,,",
        "used,pro,,,2099-12-31",
        "o'neill,pro,,,",
        "agreed,enterprise,5,60,",
        "Twin,pro,,,",
        "new,pro,,,",
      ],
      HEADER,
    );
    expect([exitCode, stdout.replaceAll(/,key_.*/g, "")]).toEqual([1, "name,id,key\nnew\n"]);
    const owner = ({ id, name }: { id: string; name: string }) =>
      `${id} \\("${name}", ending in \\w{4}, created \\S+\\)`;
    const expected = [
      `line 2 is there already: ${owner(same)}, never used`,
      `line 3 differs from ${owner(used)}: expires is "never", in the file "2099-12-31T00:00:00Z"`,
      `line 3 differs from ${owner(used)}: plan is "free", in the file "pro"`,
      `line 4 differs from ${owner(ended)}, revoked: for good; its name is free for keys create, but .*`,
      `line 5 differs from ${owner(agreed)}, never used: plan is "enterprise 5/minute 50/day", in the file "enterprise 5/minute 60/day"`,
      `line 6 is there already: ${owner(twin)}, never used`,
      "Created 1 key. Lines skipped: 5.",
      "Never used, by what is recorded up to 10 minutes ago: 3 skipped keys. .*: ./petstore keys rotate ID --remote",
      // An expired key takes no other plan.
      `To change the first of them: ./petstore keys expire ${used.id} 2099-12-31T00:00:00Z --remote`,
      "error: lines that differ from their keys, which stay as they are: 3",
    ];
    expect(stderr.trimEnd().split("\n")).toEqual(
      expected.map((line) => expect.stringMatching(new RegExp(`^${line}$`))),
    );
    await setRef(database, twin.id, "C-1", operator());
    await setNote(database, twin.id, "late", operator());
    for (const [line, header, command] of [
      ["agreed,enterprise,5,60,", HEADER, `plan ${agreed.id} enterprise --per-minute 5 --per-day 60`],
      ["twin,pro,C-1,late", "name,plan,ref,note", undefined],
      ["twin,pro,C-1,it's paid", "name,plan,ref,note", `note ${twin.id} 'it'\\''s paid'`],
      ["twin,pro,,late", "name,plan,ref,note", `ref ${twin.id} ''`],
      ["twin,pro,read", "name,plan,access", `access ${twin.id} read`],
    ] as const) {
      const { stderr } = await createFrom([line], header);
      const [, shown] = stderr.match(/^To change the first of them: \.\/petstore keys (.*) --remote$/m) ?? [];
      expect(shown).toBe(command);
    }
    // A file without the column says nothing about the expiry.
    await setExpiry(database, same.id, Date.now() + 86_400_000, operator());
    expect(await createFrom(["müller,free"])).toMatchObject({ exitCode: 0, stdout: "name,id,key\n" });
  });

  it("the column access makes read-only keys", async () => {
    const header = "name,plan,access";
    const wrong = await createFrom(["a,free,none"], header);
    expect(wrong.stderr).toContain(':2: access "none": Allowed choices are read, write.\n');
    await createFrom(["~reader,free,READ", "~writer,free,"], header);
    const { stdout } = await runPetstore("keys list --search ~ --sort name --json --remote");
    expect(JSON.parse(stdout)).toMatchObject([{ access: "read" }, { access: "write" }]);
  });

  it("two commands with the same names make one key for each name", async () => {
    const path = await fileOf(3 * BATCH);
    const inCapitals = join(folder, "capitals.csv");
    await writeFile(inCapitals, (await readFile(path, "utf8")).replaceAll(/^n(?=\d)/gm, "N"));
    const run = (file: string) => runPetstore(`keys create --from ${file} --remote`);
    const both = await Promise.all([run(path), run(inCapitals)]);
    const keys = [...(await keysByName()).values()].flat();
    expect([keys.length, new Set(keys.map(({ name }) => name.toLowerCase())).size]).toEqual([
      3 * BATCH,
      3 * BATCH,
    ]);
    const shown = both.flatMap(({ stdout }) => stdout.match(/pet_\w{50}/g) ?? []).map(sha256);
    expect(shown.sort()).toEqual(keys.map(({ hash }) => hash).sort());
  });

  it("after Ctrl+C and a crash continues, until each name has one key, and each shown key is right", async () => {
    const path = await fileOf(6 * BATCH);
    const output = join(folder, "keys.csv");
    const run = () => start(`create --from ${path} --remote`, openSync(output, "a"));

    const interrupted = run();
    atBatch(2, async (send) => {
      interrupted.child.kill("SIGINT");
      await send();
    });
    const first = await interrupted.ended;
    expect([first.exit, first.stderr]).toEqual([1, expect.stringMatching(/\nerror: interrupted\n$/)]);
    // The process learns of the signal during that batch, or just after it.
    const before = await shownIn(output);
    expect([2 * BATCH, 3 * BATCH]).toContain(before.length);
    expect(first.stderr).toContain(
      `Created ${before.length} keys; ${6 * BATCH - before.length} of ${6 * BATCH} lines have none yet. To continue, repeat the command with >> FILE`,
    );

    const crashed = run();
    atBatch(2, async (send) => {
      await send();
      crashed.child.kill("SIGKILL");
      await crashed.ended;
    });
    expect((await crashed.ended).exit).toBe("SIGKILL");
    api.intercept();
    const hidden = new Map([...(await keysByName())].map(([name, [key]]) => [name, key?.id]));
    for (const [name = ""] of await shownIn(output)) hidden.delete(name);
    expect(hidden.size).toBe(BATCH);

    const last = await run().ended;
    expect(last.exit).toBe(0);
    for (const [name, id] of hidden)
      expect(last.stderr).toMatch(
        new RegExp(`line \\d+ is there already: ${id} \\("${name}", .*, never used\\n`),
      );
    const keys = await keysByName();
    expect([keys.size, Math.max(...[...keys.values()].map(({ length }) => length))]).toEqual([6 * BATCH, 1]);
    const shown = await shownIn(output);
    expect(shown).toHaveLength(5 * BATCH);
    for (const [name = "", id, secret = ""] of shown)
      expect(keys.get(name)).toMatchObject([{ id, hash: sha256(secret) }]);

    // What nobody has seen is replaced.
    const ids = [...hidden.values()].join("\n");
    const rotated = startPetstore("keys rotate - --yes --remote".split(" "), {
      stdin: ids,
      stdout: openSync(output, "a"),
    });
    expect(await rotated.ended).toMatchObject({ exit: 0 });
    const all = await shownIn(output);
    const current = await keysByName();
    expect(all).toHaveLength(6 * BATCH);
    for (const [name = "", id, secret = ""] of all)
      expect(current.get(name)).toMatchObject([{ id, hash: sha256(secret) }]);
  });

  it("stops when the disk is full, and says which keys exist without having been shown", async () => {
    const path = await fileOf(6 * BATCH);
    const output = join(folder, "keys.csv");
    // The limit, 4 KiB, is reached in the middle of a line.
    const { exit, stderr } = await start(
      `create --from ${path} --remote`,
      openSync(output, "w"),
      "ulimit -f 8;",
    ).ended;
    expect([exit, stderr]).toEqual([
      1,
      expect.stringMatching(/\nerror: the output could not be written: EFBIG[^\n]*\n$/),
    ]);
    const keys = await keysByName();
    const shown = await shownIn(output);
    const named = [
      ...stderr.matchAll(/^not shown: (key_\w+) \("n\d+"\): \.\/petstore keys rotate \1 --remote/gm),
    ];
    const ids = [...shown.map(([, id]) => id), ...named.map(([, id]) => id)];
    expect(ids.sort()).toEqual([...keys.values()].flatMap((same) => same.map(({ id }) => id)).sort());
    expect([keys.size % BATCH, keys.size < 6 * BATCH, named.length > 0]).toEqual([0, true, true]);
  });

  it.runIf(existsSync("/dev/full"))("creates nothing if not even the header can be written", async () => {
    const { exit } = await start(`create --from ${await fileOf(3)} --remote`, openSync("/dev/full", "w"))
      .ended;
    expect([exit, (await keysByName()).size]).toEqual([1, 0]);
  });

  it("stops when the reader has closed the pipe", async () => {
    const { child, ended } = start(`create --from ${await fileOf(20 * BATCH)} --remote`, "pipe");
    atBatch(2, async (send) => {
      child.stdout?.destroy();
      await send();
    });
    const { exit, stderr } = await ended;
    expect([exit, stderr.match(/^not shown: key_/gm)?.length]).toEqual([1, BATCH]);
    expect((await keysByName()).size).toBe(2 * BATCH);
  });
});

describe("on a local database", () => {
  it("Ctrl+C, which reaches all processes, ends between two batches", async () => {
    const { state, remove } = await emptyState();
    const { keys, close } = await createDatabases({ kind: "local", state }, "keys");
    try {
      await migrate(keys, "keys");
      const path = await fileOf(2_000);
      const { child, ended } = start(`create --from ${path} --persist-to ${state}`, "pipe");
      // Until somebody reads, the pipe takes less than all lines.
      const output = child.stdout as Readable;
      await once(output, "readable");
      process.kill(-Number(child.pid), "SIGINT");
      const printed = await text(output);
      const { exit, stderr } = await ended;
      expect([exit, stderr]).toEqual([
        1,
        expect.stringMatching(
          /^Created \d+ keys; \d+ of 2000 lines have none yet\..*\nerror: interrupted\n$/,
        ),
      ]);
      const hashes = [...(await keysByName(keys)).values()].flatMap((same) => same.map(({ hash }) => hash));
      expect(
        printed
          .match(/pet_\w{50}/g)
          ?.map(sha256)
          .sort(),
      ).toEqual(hashes.sort());
    } finally {
      await close();
      await remove();
    }
  });

  it("a pending migration is a warning, unless the command needs it", async () => {
    const project = process.cwd();
    for (const name of ["migrations", "wrangler.toml"])
      await cp(name, join(folder, name), { recursive: true });
    process.chdir(folder);
    onTestFinished(() => process.chdir(project));
    await runPetstore("migrate");
    const { id } = JSON.parse((await runPetstore("keys create --name Ann --plan free --json")).stdout);
    await writeFile("migrations/pets/9999_wrong.sql", "WRONG;");
    expect((await runPetstore(`keys log ${id}`)).stderr).toBe("");
    await writeFile("migrations/keys/9999_wrong.sql", "WRONG;");
    const advice = "migrations are pending: run ./petstore migrate (9999_wrong.sql)";
    const revoked = await runPetstore(`keys revoke ${id} --yes`);
    expect([revoked.exitCode, revoked.stdout]).toEqual([0, expect.stringContaining(`Revoked ${id}`)]);
    expect(revoked.stderr).toContain(`warning: ${advice}\n`);
    const { keys, close } = await openDatabases({ kind: "local", state: ".wrangler/state" }, "keys");
    await keys.prepare("DROP TABLE replaced_secrets").run().finally(close);
    const stderr = `warning: ${advice}\nerror: ${advice}\n`;
    expect(await runPetstore("keys list")).toMatchObject({ exitCode: 1, stdout: "", stderr });
  });
});
