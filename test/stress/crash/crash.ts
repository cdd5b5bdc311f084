// Kills the service under load and restarts it, round after round, with one state folder. At the end it checks that each
// acknowledged write is stored once, and that no key exceeded its limit or lost more requests than documented. In two of three
// rounds it kills all processes, in the third the runtime only, which wrangler restarts. It does not test a crash of the machine.

import { setTimeout as wait } from "node:timers/promises";
import { onExit } from "../../../bench/measure/cleanup.ts";
import type { UsageBody } from "../../../src/rate-limit/usage/usage-body.ts";
import { emptyState, keys, start, waitUntilReady } from "../../support/e2e/petstore.ts";
import { hasSecret, trackSecret } from "../../support/worker/secrets.ts";
import { Admissions, LIMIT, type Minute } from "./admissions.ts";
import { isIdempotent, KINDS, type Kind, type ListedPet, Writes } from "./writes.ts";

/** The acknowledged writes and admitted reads of the limited key after which a round ends, if not before. */
const WRITES_PER_ROUND = 100;
const READS_PER_ROUND = 20;

const WRITERS = 4;
const READERS = 2;

/** The pause of a reader after a response, so that the limit lasts for some rounds and is reached in each minute. */
const READ_EVERY_MS = 30;

/** Makes wrangler print the Worker's log. */
const LOGGING = { WRANGLER_LOG: "log" };

/** Usage is cached for a second. */
const USAGE_CACHE_MS = 1_100;

/** The most requests for one usage. */
const MAX_ATTEMPTS = 5;

export type Fault = "all processes" | "the runtime";

export interface Round {
  number: number;
  killed: Fault;
  acknowledged: number;
  interrupted: number;
  admitted: number;
  interruptedReads: number;
  /** Requests of the limited key that are counted but were not admitted: leases and interrupted requests. */
  lostReads: number;
  /** From the kill until the service responded again. */
  downMs: number;
}

export interface CrashReport {
  rounds: Round[];
  writes: ReturnType<Writes["figures"]>;
  limit: number;
  minutes: Minute[];
  /** Over all rounds. */
  lostReads: number;
  maxLost: number;
  logLines: number;
  /** Violated guarantees, each in a sentence. */
  violations: string[];
}

/** Runs the rounds. Calls `onRound` after each. */
export async function crash(
  rounds: number,
  onRound: (round: Round) => void = () => {},
): Promise<CrashReport> {
  const { state, remove } = await emptyState();
  const run = new CrashRun(state);
  const isDone = onExit(() => run.endNow());
  try {
    await run.begin();
    const done: Round[] = [];
    for (let number = 1; number <= rounds; number += 1) {
      const round = await run.round(number);
      done.push(round);
      onRound(round);
    }
    return await run.finish(done);
  } finally {
    await run.end();
    isDone();
    await remove();
  }
}

/** The request got no response from the service. It may have been executed. */
class Interrupted extends Error {}

class CrashRun {
  readonly #state: string;
  readonly #writes = new Writes();
  readonly #admissions = new Admissions(READERS);
  readonly #log: string[] = [];
  #service: Awaited<ReturnType<typeof start>> | undefined;
  #writer = "";
  #limited = "";
  /** Admitted requests of the writer's key. */
  #admittedOfWriter = 0;
  #lostReads = 0;
  /** The limited key has few requests left, so it is time for a kill. */
  #isNearlyUsedUp = false;
  /** Clients stop sending in this round. */
  #isOver = false;
  #onAnswer = () => {};

  constructor(state: string) {
    this.#state = state;
  }

  async begin(): Promise<void> {
    await this.#start();
    this.#writer = await this.#newKey(1_000_000);
    this.#limited = await this.#newKey(LIMIT);
  }

  async end(): Promise<void> {
    await this.#service?.stop();
  }

  /** For the end of this process: does not wait. */
  endNow(): void {
    void this.#service?.kill();
  }

  /** Runs load, kills the service under it, and waits until it responds again. */
  async round(number: number): Promise<Round> {
    const killed: Fault = number % 3 === 2 ? "the runtime" : "all processes";
    const before = { ...this.#writes.figures([]), admitted: this.#admissions.total };
    this.#isOver = false;
    this.#isNearlyUsedUp = false;
    let readersLeft = READERS;
    let interruptedReads = 0;
    const underLoad = new Promise<void>((resolve) => {
      this.#onAnswer = () => {
        const hasWritten = this.#writes.acknowledged >= before.acknowledged + WRITES_PER_ROUND;
        const hasRead = this.#admissions.total >= before.admitted + READS_PER_ROUND;
        if (this.#isNearlyUsedUp || (hasWritten && (hasRead || readersLeft === 0))) resolve();
      };
    });
    const writing = Array.from({ length: WRITERS }, (_, writer) => this.#write(kindOf(number + writer)));
    const reading = Array.from({ length: READERS }, async () => {
      if (await this.#read()) interruptedReads += 1;
      readersLeft -= 1;
      this.#onAnswer();
    });
    const load = Promise.all([...writing, ...reading]);
    // A failing client ends the wait.
    await Promise.race([underLoad, load]);
    this.#isOver = true;
    this.#admissions.kill(Date.now());
    const killedAtMs = performance.now();
    await this.#kill(killed);
    const downMs = Math.round(performance.now() - killedAtMs);
    await load;
    const { acknowledged, interrupted } = this.#writes.figures([]);
    const lostBefore = this.#lostReads;
    this.#lostReads = (await this.#counted(this.#limited)) - this.#admissions.total;
    return {
      number,
      killed,
      acknowledged: acknowledged - before.acknowledged,
      interrupted: interrupted - before.interrupted,
      admitted: this.#admissions.total - before.admitted,
      interruptedReads,
      lostReads: this.#lostReads - lostBefore,
      downMs,
    };
  }

  /** Uses up the limit, retries interrupted writes, and checks everything. */
  async finish(rounds: Round[]): Promise<CrashReport> {
    this.#isOver = false;
    // Reads until a minute is used up.
    while (!this.#admissions.wasUsedUp) await this.#read();
    for (const name of this.#writes.toRetry) this.#writes.acknowledge(name, await this.#addPet(name));

    const writes = this.#writes.figures(await this.#allPets());
    await wait(USAGE_CACHE_MS);
    const minutes = this.#admissions.minutes();
    const counted = await this.#counted(this.#limited);
    const countedOfWriter = await this.#counted(this.#writer);
    this.#keepLog();
    const report = {
      rounds,
      writes,
      limit: LIMIT,
      minutes,
      lostReads: counted - this.#admissions.total,
      maxLost: minutes.reduce((sum, { maxLost }) => sum + maxLost, 0),
      logLines: this.#log.length,
    };
    const forgotten = [
      [counted, this.#admissions.total],
      [countedOfWriter, this.#admittedOfWriter],
    ].flatMap(([has = 0, had = 0]) =>
      has < had ? [`${had} requests of a key were admitted, but ${has} are counted`] : [],
    );
    return { ...report, violations: [...this.#violations(report), ...forgotten] };
  }

  #violations({ rounds, writes, minutes, lostReads, maxLost }: Omit<CrashReport, "violations">): string[] {
    const { lost, duplicated, repeatedIds, unexpected, interrupted } = writes;
    const checks: [boolean, string][] = [
      [interrupted === 0, "no write was interrupted, so the run tested nothing"],
      [lost > 0, `${lost} acknowledged pets are lost`],
      [duplicated > 0, `${duplicated} pets are duplicated`],
      [repeatedIds > 0, `${repeatedIds} ids are repeated`],
      [unexpected > 0, `${unexpected} pets are stored without a request`],
      [lostReads > maxLost, `${lostReads} requests are lost, more than ${maxLost}`],
      [this.#log.length < writes.acknowledged, `the log has only ${this.#log.length} lines`],
      ...rounds.map(({ number, lostReads: more }): [boolean, string] => [
        more < 0,
        `${-more} requests admitted before kill ${number} are no longer counted`,
      ]),
      [this.#log.some(hasSecret), "a secret is in the log"],
      ...minutes.flatMap(({ endsAt, admitted, isUsedUp, maxLost: maxLostHere }): [boolean, string][] => [
        [admitted > LIMIT, `${admitted} of ${LIMIT} requests were admitted in the minute until ${endsAt}`],
        [
          isUsedUp && admitted + maxLostHere < LIMIT,
          `the minute until ${endsAt} was used up by ${admitted} of ${LIMIT} requests, but at most ${maxLostHere} may be lost`,
        ],
      ]),
    ];
    return checks.flatMap(([isViolated, what]) => (isViolated ? [what] : []));
  }

  /** Writes sequentially until the round is over. */
  async #write(kind: Kind): Promise<void> {
    while (!this.#isOver) {
      const name = this.#writes.newName(kind);
      const times = kind === "twice at once" ? 2 : 1;
      const answers = await Promise.allSettled(Array.from({ length: times }, () => this.#addPet(name)));
      for (const answer of answers) {
        if (answer.status === "fulfilled") this.#writes.acknowledge(name, answer.value);
        else if (!(answer.reason instanceof Interrupted)) throw answer.reason;
      }
      if (answers.every(({ status }) => status === "rejected")) this.#writes.interrupted(name);
      this.#onAnswer();
    }
  }

  /** Reads sequentially until the round is over or the minute is used up. Returns whether a read was interrupted. */
  async #read(): Promise<boolean> {
    try {
      while (!this.#isOver) {
        const { status, headers } = await this.#call(this.#limited, "/v1/nowhere");
        const endsAtSeconds = Number(headers.get("X-RateLimit-Reset"));
        if (status === 429) {
          this.#admissions.refuse(endsAtSeconds);
          return false;
        }
        if (status !== 404) throw new Error(`a read got ${status}`);
        this.#admissions.admit(endsAtSeconds);
        if (this.#admissions.isTimeToKill(endsAtSeconds)) this.#isNearlyUsedUp = true;
        this.#onAnswer();
        await wait(READ_EVERY_MS);
      }
      return false;
    } catch (error) {
      if (error instanceof Interrupted) return true;
      throw error;
    }
  }

  /** Adds a pet. Its name is also its Idempotency-Key if its kind has one. */
  async #addPet(name: string): Promise<number> {
    const idempotencyKey = isIdempotent(name) ? { "Idempotency-Key": name } : {};
    const headers = { "Content-Type": "application/json", ...idempotencyKey };
    const body = JSON.stringify({ name, categoryId: 1 });
    const response = await this.#call(this.#writer, "/v1/pets", { method: "POST", headers, body });
    if (response.status !== 201) throw new Error(`${response.status} ${response.text}`);
    return (JSON.parse(response.text) as ListedPet).id;
  }

  async #allPets(): Promise<ListedPet[]> {
    const pets: ListedPet[] = [];
    for (let path: string | undefined = "/v1/pets?limit=100"; path !== undefined; ) {
      const { text, headers } = await this.#call(this.#writer, path);
      pets.push(...(JSON.parse(text) as ListedPet[]));
      path = headers.get("Link")?.match(/<http:\/\/[^/]+([^>]+)>/)?.[1];
    }
    return pets;
  }

  /** The number of requests that usage shows. Retries a 503, for slow machines. */
  async #counted(key: string): Promise<number> {
    for (let attempt = 1; ; attempt += 1) {
      const { status, headers, text } = await this.#send(key, "/v1/usage");
      if (status === 200)
        return (JSON.parse(text) as UsageBody).days.reduce((sum, { admitted }) => sum + admitted, 0);
      if (status !== 503 || attempt === MAX_ATTEMPTS) throw new Error(`usage got ${status}: ${text}`);
      await wait(Number(headers.get("Retry-After")) * 1000);
    }
  }

  /** Sends a request that counts. */
  async #call(key: string, path: string, init: RequestInit = {}) {
    const answer = await this.#send(key, path, init);
    if (key === this.#writer && answer.status !== 429) this.#admittedOfWriter += 1;
    return answer;
  }

  /**
   * Throws Interrupted if the response is incomplete or not from the service: wrangler's proxy responds while the runtime is
   * down, and passes on partial bodies as if they were complete.
   */
  async #send(key: string, path: string, init: RequestInit = {}) {
    const headers = { ...init.headers, Authorization: `Bearer ${key}` };
    try {
      const response = await fetch(`${this.#service?.origin}${path}`, { ...init, headers });
      const text = await response.text();
      if (response.headers.has("X-Request-Id") && (response.status === 204 || isWhole(text)))
        return { status: response.status, headers: response.headers, text };
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
    }
    throw new Interrupted(path);
  }

  async #kill(fault: Fault): Promise<void> {
    if (fault === "the runtime") {
      await this.#service?.killRuntime();
    } else {
      await this.#service?.kill();
      this.#keepLog();
      this.#service = undefined;
      await this.#start();
    }
  }

  async #start(): Promise<void> {
    this.#service = await start(this.#state, { environment: LOGGING });
    // wrangler announces the service before the runtime has started.
    await waitUntilReady(this.#service.origin);
  }

  /** Keeps the Worker's log lines. */
  #keepLog(): void {
    const lines = this.#service?.printed().split("\n") ?? [];
    this.#log.push(...lines.filter((line) => line.startsWith('{"event":')));
  }

  async #newKey(perMinute: number): Promise<string> {
    const limits = ["--per-minute", `${perMinute}`, "--per-day", "1000000"];
    const words = ["create", "--name", "a test", "--plan", "enterprise", ...limits];
    const { stdout } = await keys(...words, "--json", "--persist-to", this.#state);
    const { key } = JSON.parse(stdout) as { key: string };
    trackSecret(key);
    return key;
  }
}

/** The kinds of writes alternate. */
function kindOf(turn: number): Kind {
  return KINDS[turn % KINDS.length] ?? "idempotent";
}

function isWhole(json: string): boolean {
  try {
    JSON.parse(json);
    return true;
  } catch {
    return false;
  }
}
