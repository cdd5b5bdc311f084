// A client with a key: it sends what its habit says, keeps a ledger of the answers, and in the end holds the two together.

import type { Limits } from "../../../src/rate-limit/windows.ts";
import type { Answer, Outgoing } from "./connections.ts";
import type { Habit } from "./keys.ts";
import { Ledger } from "./ledger.ts";
import type { Pets } from "./pets.ts";
import type { Problems } from "./problems.ts";
import { type Asked, Requests } from "./requests.ts";

/** A run that is shorter than a minute would meet no limit: all of the minute then comes sooner, but no faster than this. */
const SHARE_OF_SHORT_RUN = 0.75;
const MAX_PER_SECOND = { under: 8, at: 8, over: 8, waits: 16, hammers: 24 };

/** No key that is under its limit uses up more of a day in one run. */
const MAX_SHARE_OF_DAY = 0.8;

interface KeyClientOptions {
  number: number;
  habit: Habit;
  limits: Limits;
  secret: string;
  /** How long the run is. */
  seconds: number;
  pets: Pets;
  problems: Problems;
}

export class KeyClient {
  readonly name: string;
  readonly ledger: Ledger;
  readonly burstsPerSecond: number;
  /** How often it waited as long as it was told, and was then let in. */
  waitsKept = 0;
  readonly #habit: Habit;
  readonly #headers: Record<string, string>;
  readonly #requests: Requests;
  readonly #problems: Problems;
  #unanswered = 0;
  #waitsUntilMs = 0;
  #hasWaited = false;

  constructor({ number, habit, limits, secret, seconds, pets, problems }: KeyClientOptions) {
    this.name = `key ${number} (${habit.plan}, ${habit.name})`;
    this.ledger = new Ledger(limits);
    this.burstsPerSecond = requestsPerSecond(habit, limits, seconds) / habit.burst;
    this.#habit = habit;
    this.#headers = { Authorization: `Bearer ${secret}`, "CF-Connecting-IP": `192.0.2.${number % 256}` };
    this.#requests = new Requests(pets, problems, number * 7, habit.name === "under");
    this.#problems = problems;
  }

  /** How the key stands, which costs it nothing. */
  usage(): Outgoing {
    return { method: "GET", path: "/v1/usage", headers: this.#headers };
  }

  /** What it sends now, at once. Who does what it is told waits for answers, and then as long as they say. */
  burst(): (Asked & { onAnswer(answer: Answer): void })[] {
    const isWaiting = this.#unanswered > 0 || Date.now() < this.#waitsUntilMs;
    if (this.#habit.name === "waits" && isWaiting) return [];
    this.#unanswered += this.#habit.burst;
    const hasWaited = this.#hasWaited;
    this.#hasWaited = false;
    return Array.from({ length: this.#habit.burst }, () => {
      const asked = this.#requests.next();
      const headers = { ...asked.headers, ...this.#headers };
      return { ...asked, headers, onAnswer: (answer) => this.#enter(asked, answer, hasWaited) };
    });
  }

  #enter(asked: Asked, answer: Answer, hasWaited: boolean): void {
    this.#unanswered -= 1;
    const outcome = this.ledger.enter(answer);
    const what = `${this.name}: ${asked.method} ${asked.path}: ${answer.status} ${answer.body.slice(0, 200)}`;
    if (outcome === "admitted") {
      this.#problems.expect(answer.status === asked.status, `not ${asked.status}`, what);
      if (answer.status === asked.status) asked.onAnswer?.(answer);
      if (hasWaited) this.waitsKept += 1;
      return;
    }
    this.#problems.expect(!hasWaited, "refused after Retry-After", what);
    if (this.#habit.name === "waits" && Date.now() >= this.#waitsUntilMs) {
      this.#waitsUntilMs = answer.cameAtMs + Number(answer.headers["retry-after"]) * 1000;
      this.#hasWaited = true;
    }
  }

  /** Holds the ledger to the limits, and to what this client should have met. */
  check(problems: Problems): void {
    const { refused, banned } = this.ledger;
    this.ledger.check(this.name, problems);
    const { name } = this.#habit;
    problems.expect(name !== "under" || refused + banned === 0, "refused under the limit", this.name);
    problems.expect(name === "hammers" || banned === 0, "banned for little", this.name);
  }
}

function requestsPerSecond({ name, share }: Habit, { minute, day }: Limits, seconds: number): number {
  const inShortRun = (share * minute) / (SHARE_OF_SHORT_RUN * seconds);
  const perSecond = seconds < 60 ? Math.min(inShortRun, MAX_PER_SECOND[name]) : (share * minute) / 60;
  return name === "under" ? Math.min(perSecond, (MAX_SHARE_OF_DAY * day) / seconds) : perSecond;
}
