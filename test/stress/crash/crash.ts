// Kills the service under load, with no warning, and has it started again, round after round, in one folder of state. Then
// it looks whether what was acknowledged is there, once, and whether anybody got more than the limit, or lost more of it
// than is said. In two rounds of three everything is killed at once, in the other one the runtime alone, which wrangler
// starts again. What is not proven here is a crash of the machine itself.

import { setTimeout as wait } from "node:timers/promises";
import { onExit } from "../../../bench/measure/cleanup.ts";
import type { UsageBody } from "../../../src/rate-limit/usage/usage-body.ts";
import { emptyState, keys, start, waitUntilReady } from "../../support/e2e/petstore.ts";
import { hasSecret, trackSecret } from "../../support/worker/secrets.ts";
import { Admissions, LIMIT, type Minute } from "./admissions.ts";
import { isNamed, KINDS, type Kind, type ListedPet, Writes } from "./writes.ts";

/** Acknowledged writes, and admitted requests of the limited key, after which a round is cut off, if not before. */
const WRITES_PER_ROUND = 100;
const READS_PER_ROUND = 20;

const WRITERS = 4;
const READERS = 2;

/** How long a reader waits after an answer, so that the limit lasts for some rounds, and is met in each minute. */
const READ_EVERY_MS = 30;

/** wrangler prints what the Worker logs. */
const LOGGING = { WRANGLER_LOG: "log" };

/** Usage shows what was so up to a second ago. */
const SHOWN_MS = 1_100;

/** How often is asked for usage. */
const MAX_ATTEMPTS = 5;

export type Fault = "everything" | "the runtime";

export interface Round {
  number: number;
  killed: Fault;
  acknowledged: number;
  cutOff: number;
  admitted: number;
  readsCutOff: number;
  /** How many more requests of the limited key are counted than were admitted: leases, and requests that were cut off. */
  lostReads: number;
  /** From the kill until the service answered again. */
  downMs: number;
}

export interface CrashReport {
  rounds: Round[];
  writes: ReturnType<Writes["figures"]>;
  limit: number;
  minutes: Minute[];
  /** The same in the end. */
  lostReads: number;
  mayBeLost: number;
  logLines: number;
  /** What should not be so, each in a sentence. */
  broken: string[];
}

/** Runs so many rounds. Tells `onRound` of each. */
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

/** The request has no answer of the service: it may have been done or not. */
class CutOff extends Error {}

class CrashRun {
  readonly #state: string;
  readonly #writes = new Writes();
  readonly #admissions = new Admissions(READERS);
  readonly #log: string[] = [];
  #service: Awaited<ReturnType<typeof start>> | undefined;
  #writer = "";
  #limited = "";
  /** What the service let the writer's key do. */
  #admittedOfWriter = 0;
  #lostReads = 0;
  /** The limited key has little left, so it is time for a kill. */
  #isNearlyUsedUp = false;
  /** Nobody sends anything more in this round. */
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

  /** The same at once, for the case that this process is ended. */
  endNow(): void {
    void this.#service?.kill();
  }

  /** Load, a kill in its midst, and the service there again. */
  async round(number: number): Promise<Round> {
    const killed: Fault = number % 3 === 2 ? "the runtime" : "everything";
    const before = { ...this.#writes.figures([]), admitted: this.#admissions.total };
    this.#isOver = false;
    this.#isNearlyUsedUp = false;
    let readersLeft = READERS;
    let readsCutOff = 0;
    const underLoad = new Promise<void>((resolve) => {
      this.#onAnswer = () => {
        const hasWritten = this.#writes.acknowledged >= before.acknowledged + WRITES_PER_ROUND;
        const hasRead = this.#admissions.total >= before.admitted + READS_PER_ROUND;
        if (this.#isNearlyUsedUp || (hasWritten && (hasRead || readersLeft === 0))) resolve();
      };
    });
    const writing = Array.from({ length: WRITERS }, (_, writer) => this.#write(kindOf(number + writer)));
    const reading = Array.from({ length: READERS }, async () => {
      if (await this.#read()) readsCutOff += 1;
      readersLeft -= 1;
      this.#onAnswer();
    });
    const load = Promise.all([...writing, ...reading]);
    // What fails is not waited for.
    await Promise.race([underLoad, load]);
    this.#isOver = true;
    this.#admissions.kill(Date.now());
    const killedAtMs = performance.now();
    await this.#kill(killed);
    const downMs = Math.round(performance.now() - killedAtMs);
    await load;
    const { acknowledged, cutOff } = this.#writes.figures([]);
    const lostBefore = this.#lostReads;
    this.#lostReads = (await this.#counted(this.#limited)) - this.#admissions.total;
    return {
      number,
      killed,
      acknowledged: acknowledged - before.acknowledged,
      cutOff: cutOff - before.cutOff,
      admitted: this.#admissions.total - before.admitted,
      readsCutOff,
      lostReads: this.#lostReads - lostBefore,
      downMs,
    };
  }

  /** Meets the limit, asks again for what was not answered, and looks at what there is. */
  async finish(rounds: Round[]): Promise<CrashReport> {
    this.#isOver = false;
    // The rest of the minute, to its end or the next one's.
    while (!this.#admissions.wasUsedUp) await this.#read();
    for (const name of this.#writes.toBeSentAgain) this.#writes.acknowledge(name, await this.#addPet(name));

    const writes = this.#writes.figures(await this.#allPets());
    await wait(SHOWN_MS);
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
      mayBeLost: minutes.reduce((sum, { mayBeLost }) => sum + mayBeLost, 0),
      logLines: this.#log.length,
    };
    const forgotten = [
      [counted, this.#admissions.total],
      [countedOfWriter, this.#admittedOfWriter],
    ].flatMap(([has = 0, had = 0]) =>
      has < had ? [`${had} requests of a key were let in, and it has ${has} on its account`] : [],
    );
    return { ...report, broken: [...this.#brokenPromises(report), ...forgotten] };
  }

  #brokenPromises({ rounds, writes, minutes, lostReads, mayBeLost }: Omit<CrashReport, "broken">): string[] {
    const { lost, madeTwice, idsGivenTwice, unknown, cutOff } = writes;
    const broken: [boolean, string][] = [
      [cutOff === 0, "nothing was cut off, so nothing was tried"],
      [lost > 0, `${lost} acknowledged pets are lost`],
      [madeTwice > 0, `${madeTwice} pets were made twice`],
      [idsGivenTwice > 0, `${idsGivenTwice} ids were given twice`],
      [unknown > 0, `${unknown} pets are there that nobody asked for`],
      [lostReads > mayBeLost, `${lostReads} requests are lost, and ${mayBeLost} may be`],
      [this.#log.length < writes.acknowledged, `the log has ${this.#log.length} lines only`],
      ...rounds.map(({ number, lostReads: more }): [boolean, string] => [
        more < 0,
        `${-more} requests were let in before kill ${number}, and are forgotten after it`,
      ]),
      [this.#log.some(hasSecret), "a secret is in the log"],
      ...minutes.flatMap(({ endsAt, admitted, isUsedUp, mayBeLost: mayBe }): [boolean, string][] => [
        [admitted > LIMIT, `${admitted} of ${LIMIT} were admitted in the minute to ${endsAt}`],
        [
          isUsedUp && admitted + mayBe < LIMIT,
          `${admitted} of ${LIMIT} were admitted in the minute to ${endsAt}, ${mayBe} may be lost, and it was used up`,
        ],
      ]),
    ];
    return broken.flatMap(([isBroken, what]) => (isBroken ? [what] : []));
  }

  /** Writes one after the other until the round is over. */
  async #write(kind: Kind): Promise<void> {
    while (!this.#isOver) {
      const name = this.#writes.newName(kind);
      const times = kind === "twice at once" ? 2 : 1;
      const answers = await Promise.allSettled(Array.from({ length: times }, () => this.#addPet(name)));
      for (const answer of answers) {
        if (answer.status === "fulfilled") this.#writes.acknowledge(name, answer.value);
        else if (!(answer.reason instanceof CutOff)) throw answer.reason;
      }
      if (answers.every(({ status }) => status === "rejected")) this.#writes.cutOff(name);
      this.#onAnswer();
    }
  }

  /** Reads one after the other until the round is over, or the minute used up. Returns whether it was cut off. */
  async #read(): Promise<boolean> {
    try {
      while (!this.#isOver) {
        const { status, headers } = await this.#call(this.#limited, "/v1/nowhere");
        const endsAtSeconds = Number(headers.get("X-RateLimit-Reset"));
        if (status === 429) {
          this.#admissions.refuse(endsAtSeconds);
          return false;
        }
        if (status !== 404) throw new Error(`a read was answered with ${status}`);
        this.#admissions.admit(endsAtSeconds);
        if (this.#admissions.isTimeToKill(endsAtSeconds)) this.#isNearlyUsedUp = true;
        this.#onAnswer();
        await wait(READ_EVERY_MS);
      }
      return false;
    } catch (error) {
      if (error instanceof CutOff) return true;
      throw error;
    }
  }

  /** Adds the pet of this name, which, if it is of a kind that has one, is also its Idempotency-Key. */
  async #addPet(name: string): Promise<number> {
    const idempotencyKey = isNamed(name) ? { "Idempotency-Key": name } : {};
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

  /** How many requests of a key the service has on its account. On a slow machine it may have to be asked again. */
  async #counted(key: string): Promise<number> {
    for (let attempt = 1; ; attempt += 1) {
      const { status, headers, text } = await this.#send(key, "/v1/usage");
      if (status === 200)
        return (JSON.parse(text) as UsageBody).days.reduce((sum, { admitted }) => sum + admitted, 0);
      if (status !== 503 || attempt === MAX_ATTEMPTS)
        throw new Error(`usage was answered with ${status}: ${text}`);
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
   * Throws CutOff if there is no whole answer, or none of the service: wrangler's proxy answers while the runtime is gone,
   * and passes on the first part of a body as if it were all.
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
    throw new CutOff(path);
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
    // wrangler announces the service before the Worker's runtime has started.
    await waitUntilReady(this.#service.origin);
  }

  /** Keeps the lines that the Worker has written to its log. */
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

/** The kinds of writes take turns. */
function kindOf(turn: number): Kind {
  return KINDS[turn % KINDS.length] ?? "named";
}

function isWhole(json: string): boolean {
  try {
    JSON.parse(json);
    return true;
  } catch {
    return false;
  }
}
