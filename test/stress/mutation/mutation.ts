// Mutation testing of the limiter and of the keys, with some 1,300 mutants. It fails if a mutant survives that is not in
// equivalent-mutants.ts.
//
// One run of a test file tries many mutants in one isolate, because starting workerd for each would take hours. At its end the
// tests must pass with the original code. A test that does not is run with each mutant alone, at the end, and its failure counts
// only if it passes without the mutant.
//
// Tests without the runtime come first, then test/simulation/, then the tests nearest to a source (at first eight of a slow
// file), and all others if mutants are left. A mutated constant needs runs of its own, so only the nearest files try it.
//
// StrykerJS works in workerd too, but starts one for each mutant, and mutates neither numbers nor single statements.

import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type Io, UsageError } from "../../../scripts/lib/command.ts";
import { EXPLAINED, type Explanation } from "./equivalent-mutants.ts";
import { type Mutant, mutate } from "./mutants.ts";
import { ROOT } from "./root.ts";
import { Crew } from "./workers.ts";

const SOURCES = ["src/{rate-limit,keys}/**/*.ts", "src/http/client-address.ts", "src/lib/runtime.ts"];
const SIMULATION = "test/simulation/*.test.ts";

/** Mutants in one run: what is lost if one of them hangs, or disturbs what runs behind it, is not much. */
const MAX_BATCH = 25;

const AT_A_TIME = 2;

/** What asks so many times more often than the code as it is goes on forever. */
const MORE_CALLS = 20;

/** Tests of other parts, which reach these ones all the same: they take long, and notice nothing that others don't. */
const LEFT_OUT = [
  "bad-input",
  "database",
  "errors",
  "fault-table",
  "idempotency",
  "int64",
  "page-cache",
  "log",
  "openapi",
  "pages",
  "schema",
  "security",
  "text",
].map((name) => `test/worker/${name}.test.ts`);

/** So many tests of a file are tried first: the quickest of those that reach a mutant. Of a file that is quick, all are. */
const FIRST_TESTS = 8;
const QUICK_FILE_MS = 5_000;

/** The tests that are the most likely to notice something in a source, and so come first. */
const NEAREST: Record<string, string[]> = {
  "src/rate-limit/isolate/call-object.ts": ["faults"],
  "src/http/client-address.ts": ["keys", "rate-limit-headers"],
  "src/keys/lookup-throttle.ts": ["lookup-throttle", "keys"],
  "src/keys/authenticate.ts": ["keys", "freshness", "bans", "faults"],
  "src/keys/admin.ts": ["admin", "keys"],
  "src/rate-limit/plans.ts": ["rate-limit-headers", "contract"],
  "src/keys/require-key.ts": ["keys", "rate-limit-headers"],
  "src/keys/secret.ts": ["keys"],
  "src/keys/store.ts": ["admin", "keys"],
  "src/rate-limit/anonymous.ts": ["keys", "rate-limit-headers"],
  "src/rate-limit/headers.ts": ["rate-limit-headers", "bans"],
  "src/rate-limit/isolate/known-quota.ts": ["rate-limiter", "faults"],
  "src/rate-limit/isolate/limiter-client.ts": ["rate-limiter", "faults"],
  "src/rate-limit/isolate/limiter-clients.ts": ["rate-limiter", "faults"],
  "src/rate-limit/object/quota.ts": ["bans", "usage"],
  "src/rate-limit/object/rate-limiter.ts": ["rate-limiter", "usage"],
  "src/rate-limit/middleware.ts": ["rate-limit-headers", "bans"],
  "src/rate-limit/windows.ts": ["rate-limit-headers"],
  "src/lib/runtime.ts": ["rate-limiter", "faults"],
};

type Project = "worker" | "unit" | "simulation";

interface TestToRun {
  project: Project;
  file: string;
}

interface TestFile extends TestToRun {
  durationMs: number;
  /** The tests that reach a mutant. */
  reaching: Map<number, string[]>;
  /** How often one of its tests asks which mutant is active. */
  maxCalls: number;
  /** Tests that can only run once in an isolate, or not after so many mutants. */
  once: Set<string>;
}

type Fate = { by: string; isTimeout: boolean };

/** No mutant: the code as it is, after others were tried. */
const CONTROL = -1;

export interface MutationOptions {
  /** The sources whose mutants to try, separated by commas. */
  files?: string | undefined;
  /** The one line or place whose mutants to try: the tests that kill them are printed too. */
  only?: string | undefined;
}

const startedMs = Date.now();
let options: MutationOptions = {};
let io: Io;
let crew: Crew;
const { mutants, mutated } = mutateAll();
const wanted: Mutant[] = [];
const fates = new Map<number, Fate>();
/** The errors of tests that were run alone, without a mutant, by file and names. */
const failuresByItself = new Map<string, Promise<string | undefined>>();
const recordedFiles: TestFile[] = [];
const firstFiles: TestFile[] = [];

/** Tries the mutants, once in a process. Returns whether all survivors are explained. */
export async function tryMutants(chosen: MutationOptions, streams: Io): Promise<boolean> {
  [options, io] = [chosen, streams];
  wanted.push(...mutants.filter(isWanted));
  if (wanted.length === 0) throw new UsageError(`no mutants in ${options.only ?? options.files}`);
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, endEarly);
  crew = new Crew(mutated);
  firstFiles.push(...(await recordAll(testsToRun().filter(comesFirst))));
  for (const testFile of firstFiles) {
    const most = testFile.durationMs < QUICK_FILE_MS ? Number.POSITIVE_INFINITY : FIRST_TESTS;
    await tryFile(testFile, nearTo(testFile), most);
  }
  for (const testFile of firstFiles) await tryFile(testFile, unexplained(), Number.POSITIVE_INFINITY);
  const constants = unexplained().filter(({ isStatic }) => isStatic);
  await inParallel(constants.map((mutant) => () => tryStatic(mutant)));
  const otherFiles = await recordOthers();
  for (const testFile of otherFiles) await tryFile(testFile, unexplained(), Number.POSITIVE_INFINITY);
  const unnoticed = unexplained().filter(({ isStatic }) => !isStatic);
  await inParallel(unnoticed.map((mutant) => () => tryAlone(mutant)));
  crew.end();
  return report();
}

/** Who interrupts it sees what was found until then. */
function endEarly(): void {
  report();
  print("Interrupted: surviving mutants were not tried with all tests.");
  process.exit(130);
}

function mutateAll() {
  const all: Mutant[] = [];
  const texts: Record<string, string> = {};
  for (const file of globSync(SOURCES, { cwd: ROOT }).sort()) {
    const made = mutate(file, readFileSync(join(ROOT, file), "utf8"), all.length + 1);
    all.push(...made.mutants);
    texts[file] = made.mutated;
  }
  return { mutants: all, mutated: texts };
}

function isWanted({ file, line, column }: Mutant): boolean {
  if (options.only !== undefined) return `${file}:${line}:${column}:`.startsWith(`${options.only}:`);
  return options.files?.split(",").includes(file) ?? true;
}

function alive(): Mutant[] {
  return wanted.filter(({ id }) => !fates.has(id));
}

function unexplained(): Mutant[] {
  return alive().filter((mutant) => !EXPLAINED.some((each) => fits(each, mutant)));
}

/** Those that a file is the likeliest to notice: in Node, which costs little, all of them. */
function nearTo(testFile: TestFile): Mutant[] {
  if (testFile.project !== "worker") return alive();
  return alive().filter(({ file }) => isNear(testFile, file));
}

function isNear({ file }: TestToRun, source: string): boolean {
  return NEAREST[source]?.some((name) => file === `test/worker/${name}.test.ts`) ?? false;
}

/** All test files that can notice something. */
function testsToRun(): TestToRun[] {
  const workerFiles = globSync("test/worker/*.test.ts", { cwd: ROOT }).filter(
    (file) => !LEFT_OUT.includes(file),
  );
  const unitFiles = globSync("test/unit/*.test.ts", { cwd: ROOT });
  const simulationFiles = globSync(SIMULATION, { cwd: ROOT });
  return [
    ...unitFiles.map((file) => ({ project: "unit" as const, file })),
    ...simulationFiles.map((file) => ({ project: "simulation" as const, file })),
    ...workerFiles.map((file) => ({ project: "worker" as const, file })),
  ];
}

/** Whether a test file is tried before all others: it costs little, or is near to a source that is wanted. */
function comesFirst(test: TestToRun): boolean {
  return test.project !== "worker" || wanted.some(({ file }) => isNear(test, file));
}

/** Records all other test files, if they are needed. */
async function recordOthers(): Promise<TestFile[]> {
  const left = unexplained();
  for (const mutant of left) say(`left: ${describeMutant(mutant)}`);
  if (left.every(({ isStatic }) => isStatic)) return [];
  return recordAll(testsToRun().filter((test) => !comesFirst(test)));
}

/** Runs tests twice with the code as it is, and records which mutants each of them reaches. The quickest come first. */
async function recordAll(tests: TestToRun[]): Promise<TestFile[]> {
  const recorded = await inParallel(
    tests.map(
      ({ project, file }) =>
        () =>
          record(project, file),
    ),
  );
  const rank = { unit: 0, simulation: 1, worker: 2 };
  return recorded.toSorted((a, b) => rank[a.project] - rank[b.project] || a.durationMs - b.durationMs);
}

async function record(project: Project, file: string): Promise<TestFile> {
  const tried = [0, CONTROL].map((id) => ({ id, tests: null }));
  const job = {
    project,
    file,
    order: { tried, isStatic: false, isRecording: true, maxCalls: Number.MAX_SAFE_INTEGER },
  };
  const { tests, errors, hasEnded } = await crew.run(job);
  const failed = tests.filter(
    ({ mutant, error }) => mutant === 0 && error !== undefined && !isTimeout(error),
  );
  if (!hasEnded || tests.length === 0 || errors.length > 0 || failed.length > 0) {
    const why = [...errors, ...failed.map(({ name, error }) => `${name}: ${error}`)].join("\n");
    throw new Error(`${file} fails without a mutant\n${why}`);
  }
  const reaching = new Map<number, string[]>();
  for (const { mutant, name, reached, error } of tests.toSorted((a, b) => a.durationMs - b.durationMs)) {
    if (mutant !== 0 || error !== undefined) continue;
    for (const id of new Set(reached)) reaching.set(id, [...(reaching.get(id) ?? []), name]);
  }
  const once = tests.filter(({ mutant, error }) => mutant === CONTROL && error !== undefined);
  const durationMs = tests.reduce((sum, test) => sum + test.durationMs, 0);
  say(`${file} (${project}) reaches ${reaching.size} mutants, ${Math.round(durationMs / 2)} ms`);
  const maxCalls = MORE_CALLS * Math.max(...tests.map(({ calls }) => calls)) + 1_000_000;
  const names = new Set(once.map(({ name }) => name));
  const recorded = { project, file, durationMs, maxCalls, reaching, once: names };
  recordedFiles.push(recorded);
  return recorded;
}

/** Tries those of some mutants that a file's tests reach, each with `most` tests at most. */
async function tryFile(testFile: TestFile, some: Mutant[], most: number): Promise<void> {
  const reached = some.filter(({ id, isStatic }) => !isStatic && testsOf(testFile, id).length > 0);
  const size = Math.max(1, Math.min(MAX_BATCH, Math.ceil(reached.length / AT_A_TIME)));
  const batches = Array.from({ length: Math.ceil(reached.length / size) }, (_, index) =>
    reached.slice(index * size, (index + 1) * size),
  );
  await inParallel(batches.map((batch) => () => tryBatch(testFile, batch, most)));
  const noticed = reached.filter(({ id }) => fates.has(id)).length;
  say(
    `${testFile.file} (${testFile.project}) killed ${noticed} of ${reached.length}, ${alive().length} left`,
  );
}

function testsOf({ reaching, once }: TestFile, id: number): string[] {
  return (reaching.get(id) ?? []).filter((name) => !once.has(name));
}

async function tryBatch(testFile: TestFile, batch: Mutant[], most: number): Promise<void> {
  if (batch.length === 0) return;
  const { project, file, maxCalls } = testFile;
  const tried = batch.map(({ id }) => ({ id, tests: testsOf(testFile, id).slice(0, most) }));
  const control = { id: CONTROL, tests: [...new Set(tried.flatMap(({ tests }) => tests))] };
  const { tests, errors, hasEnded, begun } = await crew.run({
    project,
    file,
    order: {
      tried: [...tried, control],
      isStatic: false,
      isRecording: false,
      maxCalls,
    },
  });
  if (hasEnded && tests.length === 0) throw new Error(`${file} ran no tests: ${errors.join("\n")}`);
  const failures = tests.filter(({ error }) => error !== undefined);
  const disturbed = failures.filter(({ mutant }) => mutant === control.id);
  if (disturbed.length > 0) {
    for (const { name, error } of disturbed) {
      say(`${file}: "${name}" fails after other mutants: ${error}`);
      testFile.once.add(name);
    }
    return tryBatch(
      testFile,
      batch.filter(({ id }) => testsOf(testFile, id).length > 0),
      most,
    );
  }
  for (const { mutant, name, error = "" } of failures) {
    if (!fates.has(mutant)) fates.set(mutant, { by: `${file} ${name}`, isTimeout: isTimeout(error) });
  }
  say(`${file}: tried ${batch.length}`);
  if (hasEnded) return;
  say(`${file}: mutant ${begun} of ${batch.length} does not end`);
  const busy = batch.find(({ id }) => id === begun || batch.length === 1);
  if (busy !== undefined) fates.set(busy.id, { by: file, isTimeout: true });
  // What became of those before it was perhaps not heard any more.
  const rest = batch.filter(({ id }) => !fates.has(id));
  await tryHalves(testFile, rest, busy === undefined ? Math.ceil(rest.length / 2) : rest.length, most);
}

async function tryHalves(testFile: TestFile, batch: Mutant[], half: number, most: number): Promise<void> {
  await tryBatch(testFile, batch.slice(0, half), most);
  await tryBatch(testFile, batch.slice(half), most);
}

/**
 * Tries a mutant alone: with the tests that can run only once in an isolate, and with all that are near to it, because an
 * error outside of all tests, like a rejection that nobody handles, is nobody's among many.
 */
async function tryAlone(mutant: Mutant): Promise<void> {
  for (const testFile of recordedFiles) {
    const reaching = testFile.reaching.get(mutant.id) ?? [];
    const tests = isNear(testFile, mutant.file)
      ? reaching
      : reaching.filter((name) => testFile.once.has(name));
    if (tests.length > 0 && (await isNoticed(mutant, testFile, tests, false))) return;
  }
}

/** Tries a mutant that is there from the beginning, with the tests that reach code in which its constant is named. */
async function tryStatic(mutant: Mutant): Promise<void> {
  const { file: source, constant } = mutant;
  const inSource = mutants.filter(({ file, isStatic }) => file === source && !isStatic);
  const named = inSource.filter(({ lineText }) => constant !== undefined && lineText.includes(constant));
  const nearby = named.length > 0 ? named : inSource;
  const testsOfFile = ({ reaching }: TestFile) => [
    ...new Set(nearby.flatMap((each) => reaching.get(each.id) ?? [])),
  ];
  const isCandidate = (each: TestFile) =>
    each.project === "worker" ? isNear(each, source) : testsOfFile(each).length > 0;
  for (const testFile of firstFiles.filter(isCandidate)) {
    const tests = nearby.length === 0 ? null : testsOfFile(testFile);
    if (await isNoticed(mutant, testFile, tests, true)) break;
  }
  say(`${alive().filter(({ isStatic }) => isStatic).length} constants are left`);
}

/** Tries one mutant in an isolate of its own. */
async function isNoticed(
  mutant: Mutant,
  testFile: TestFile,
  tests: string[] | null,
  isStatic: boolean,
): Promise<boolean> {
  const failure = await failureOf(mutant.id, testFile, tests, isStatic);
  if (failure === undefined) return false;
  const by = `${testFile.file} ${failure.split("\n")[0]}`;
  say(`${describeMutant(mutant)}: ${by}`);
  // Not if these tests fail by themselves, without those that are left out.
  const asked = JSON.stringify([testFile.file, tests]);
  const failureByItself = failuresByItself.get(asked) ?? failureOf(CONTROL, testFile, tests, isStatic);
  failuresByItself.set(asked, failureByItself);
  if ((await failureByItself) !== undefined) {
    say(`${testFile.file} fails without the mutant too: ${await failureByItself}`);
    return false;
  }
  fates.set(mutant.id, { by, isTimeout: isTimeout(failure) });
  return true;
}

/** Runs tests of a file in an isolate of their own, with one mutant. Returns the first error. */
async function failureOf(
  id: number,
  { project, file, maxCalls }: TestFile,
  tests: string[] | null,
  isStatic: boolean,
): Promise<string | undefined> {
  const order = { tried: [{ id, tests }], isStatic, isRecording: false, maxCalls };
  const outcome = await crew.run({ project, file, order });
  const failed = outcome.tests.find(({ error }) => error !== undefined);
  return failed?.error ?? outcome.errors[0] ?? (outcome.hasEnded ? undefined : "endless loop");
}

function isTimeout(error: string): boolean {
  return /timed out in|endless loop/.test(error);
}

/** Runs so many at a time; the results are in the order of the tasks. */
async function inParallel<Result>(tasks: (() => Promise<Result>)[]): Promise<Result[]> {
  const results: Result[] = [];
  const left = tasks.map((task, index) => ({ task, index }));
  const work = async () => {
    for (let next = left.shift(); next !== undefined; next = left.shift()) {
      results[next.index] = await next.task();
    }
  };
  await Promise.all(Array.from({ length: AT_A_TIME }, work));
  return results;
}

/** Writes the tables. Returns whether all is well. */
function report(): boolean {
  const survivors = alive();
  const open = unexplained();
  const files = [...new Set(wanted.map(({ file }) => file))];
  print(`${"".padEnd(32)}  mutants   killed timed out explained survived`);
  for (const file of [...files, undefined]) {
    const of = wanted.filter((each) => file === undefined || each.file === file);
    const left = of.filter(({ id }) => !fates.has(id));
    const timedOut = of.filter(({ id }) => fates.get(id)?.isTimeout).length;
    const explained = left.filter((mutant) => !open.includes(mutant)).length;
    const numbers = [
      of.length,
      of.length - left.length - timedOut,
      timedOut,
      explained,
      left.length - explained,
    ];
    print(`${(file ?? "all").padEnd(32)}${numbers.map((number) => `${number}`.padStart(9)).join("")}`);
  }
  print(open.length > 0 ? "\nUnexplained survivors:" : "\nAll survivors are explained.");
  for (const mutant of open) {
    const isReached = recordedFiles.some(({ reaching }) => reaching.has(mutant.id));
    print(`${describeMutant(mutant)}${isReached ? "" : "  (no coverage)"}`);
  }
  if (options.only !== undefined) {
    for (const each of wanted) print(`${describeMutant(each)}: ${fates.get(each.id)?.by ?? "survived"}`);
  }
  const kinds = Map.groupBy(
    survivors.flatMap((mutant) => EXPLAINED.filter((each) => fits(each, mutant)).slice(0, 1)),
    ({ kind }) => kind,
  );
  for (const [kind, explanations] of kinds) print(`${kind}: ${explanations.length}`);
  const stale = EXPLAINED.flatMap((each) => staleOf(each, survivors));
  if (stale.length > 0) print(`\nExplained, but missing or killed:\n${stale.join("\n")}`);
  print(`\n${Math.round((Date.now() - startedMs) / 1000)} s`);
  return open.length === 0 && stale.length === 0;
}

function describeMutant({ file, line, column, original, replacement }: Mutant): string {
  return `${file}:${line}:${column}  ${original} → ${replacement}`;
}

function fits({ file, line, changes }: Explanation, mutant: Mutant): boolean {
  if (file !== mutant.file || line !== mutant.lineText) return false;
  return changes.some(([from, to]) => from === mutant.original && to === mutant.replacement);
}

/** The changes of an explanation that no survivor has; none if its file was not all tried. */
function staleOf({ file, line, changes }: Explanation, survivors: Mutant[]): string[] {
  const isTried = mutants.every((mutant) => mutant.file !== file || wanted.includes(mutant));
  if (!isTried) return [];
  const here = survivors.filter((mutant) => mutant.file === file && mutant.lineText === line);
  return changes
    .filter(
      ([from, to]) => !here.some(({ original, replacement }) => original === from && replacement === to),
    )
    .map(([from, to]) => `${file}  ${line}  ${from} → ${to}`);
}

function say(text: string): void {
  io.note(`${Math.round((Date.now() - startedMs) / 1000)} s: ${text}`);
}

function print(text: string): void {
  io.print(text);
}
