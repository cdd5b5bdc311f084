// The processes that try mutants, two at a time. A process that reports nothing for long, because a mutant hangs, is replaced.

import { type ChildProcess, fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { ROOT } from "./root.ts";
import type { Command, News } from "./tester.ts";

const TESTER = fileURLToPath(new URL("tester.ts", import.meta.url).href);

/** How long a process may say nothing: on a machine that is busy, one takes a quarter of that to start. */
const SILENCE_MS = 60_000;

/** How long one mutant may take of which it was heard that it has begun: some ten times as long as the code as it is. */
const BUSY_MS = { unit: 5_000, simulation: 30_000, worker: SILENCE_MS };

export type Job = Extract<Command, { file: string }>;
export type TestNews = Extract<News, { kind: "test" }>;

/** What came of a job: the tests that have run, and whether it came to its end. */
export interface Outcome {
  tests: TestNews[];
  errors: string[];
  hasEnded: boolean;
  /** The mutant that was begun last, if that is known. */
  begun?: number;
}

export class Crew {
  readonly #mutated: Record<string, string>;
  readonly #idle: ChildProcess[] = [];
  readonly #all = new Set<ChildProcess>();

  /** `mutated`: the sources that they load. */
  constructor(mutated: Record<string, string>) {
    this.#mutated = mutated;
    // Also when this process is interrupted.
    process.on("exit", () => this.end());
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => process.exit(130));
  }

  async run(job: Job): Promise<Outcome> {
    const child = this.#idle.pop() ?? this.#start();
    const outcome = await follow(child, job);
    if (outcome.hasEnded) this.#idle.push(child);
    else this.#end(child);
    return outcome;
  }

  end(): void {
    for (const child of this.#all) this.#end(child);
  }

  #start(): ChildProcess {
    const child = fork(TESTER, [], {
      cwd: ROOT,
      detached: true,
      stdio: ["ignore", "ignore", "ignore", "ipc"],
    });
    this.#all.add(child);
    child.send({ mutated: this.#mutated } satisfies Command);
    return child;
  }

  /** With the workerd that it has started: they are one group of processes. */
  #end(child: ChildProcess): void {
    this.#all.delete(child);
    try {
      if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
    } catch {
      // It is over already.
    }
  }
}

function follow(child: ChildProcess, job: Job): Promise<Outcome> {
  const outcome: Outcome = { tests: [], errors: [], hasEnded: false };
  return new Promise((resolve) => {
    const finish = () => {
      clearTimeout(silence);
      child.removeAllListeners();
      resolve(outcome);
    };
    let silence = setTimeout(finish, SILENCE_MS);
    const wait = (ms: number) => {
      clearTimeout(silence);
      silence = setTimeout(finish, ms);
    };
    child.on("message", (news: News) => {
      wait(news.kind === "begin" ? BUSY_MS[job.project] : SILENCE_MS);
      if (news.kind === "test") outcome.tests.push(news);
      else if (news.kind === "begin") outcome.begun = news.mutant;
      else {
        outcome.errors = news.errors;
        outcome.hasEnded = true;
        finish();
      }
    });
    child.on("exit", finish);
    child.send(job);
  });
}
