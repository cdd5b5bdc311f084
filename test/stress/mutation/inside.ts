// Runs in the process of the tests (workerd or Node) before other modules: sets the active mutant, and runs each test only for
// the mutants that it reaches. Random inputs have a fixed seed, so that runs are reproducible.

import fc from "fast-check";
import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  inject,
  type RunnerTestSuite as Suite,
  type TestContext,
} from "vitest";

/** A mutant, and the full names of the tests that are to be run with it; null: all. */
export interface Tried {
  /** 0 or less: the code as it is. */
  id: number;
  tests: string[] | null;
}

/** What one run of one test file is for. */
export interface Order {
  tried: Tried[];
  /** Whether the (one) mutant has to be there while files are loaded. */
  isStatic: boolean;
  /** Whether each test is to say which mutants it reaches, and how often it asks which one is active. */
  isRecording: boolean;
  /** How often it may ask: whoever asks more often goes on forever. */
  maxCalls: number;
}

declare module "vitest" {
  interface ProvidedContext {
    order: Order;
  }
  interface TaskMeta {
    reached?: number[];
    calls?: number;
  }
}

declare global {
  var $mutant: (id: number) => boolean;
  var $mutants: () => Tried[];
  var $describe: (tried: Tried, body: () => Promise<void>) => void;
}

/** Where the next mutant is announced, if this is Node: it is heard even if that one never comes to an end. */
export const BEGUN = "mutant begun";
const begun = "BroadcastChannel" in globalThis ? new BroadcastChannel(BEGUN) : undefined;

const SEED = 20_261_120;

/** More than there are mutants. */
const MAX_ID = 10_000;

const { tried, isStatic, isRecording, maxCalls } = inject("order");
let active = isStatic ? (tried[0]?.id ?? 0) : 0;
let calls = 0;
const reached = new Uint8Array(MAX_ID);
const noticed = new Set<Tried>();
let current: Tried | undefined;

fc.configureGlobal({ seed: SEED });
// The simulation takes its seed from there.
if (inject("simulationRuns") !== undefined) Math.random = () => 0.25;

globalThis.$mutant = (id) => {
  calls += 1;
  if (calls > maxCalls) throw new Error("endless loop");
  reached[id] = 1;
  return id === active;
};

globalThis.$mutants = () => tried;

globalThis.$describe = (each, body) => {
  describe(`mutant ${each.id}`, async () => {
    // biome-ignore lint/correctness/noEmptyPattern: vitest wants a pattern there
    beforeAll(({}, suite) => {
      current = each;
      active = each.id;
      begun?.postMessage(each.id);
      if (each.tests !== null) leaveOut(suite, new Set(each.tests));
    });
    afterAll(() => {
      current = undefined;
      active = 0;
    });
    await body();
  });
};

beforeEach((context: TestContext) => {
  if (current === undefined) return;
  if (noticed.has(current)) context.skip();
  calls = 0;
});

afterAll(() => begun?.close());

afterEach(({ task }: TestContext) => {
  if (current !== undefined && task.result?.state === "fail") noticed.add(current);
  if (!isRecording || current?.id !== 0) return;
  task.meta.calls = calls;
  // What was reached while files were loaded belongs to the first test.
  task.meta.reached = [...reached.keys()].filter((id) => reached[id] === 1);
  reached.fill(0);
});

/** Leaves out all tests of a mutant that are not wanted: without their hooks, because they are by far the most. */
function leaveOut(suite: Readonly<Suite>, wanted: Set<string>, path = ""): void {
  for (const task of suite.tasks) {
    const name = `${path}${task.name}`;
    if (task.type === "suite") leaveOut(task, wanted, `${name} > `);
    else if (!wanted.has(name)) task.mode = "skip";
  }
}
