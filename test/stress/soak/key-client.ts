// A client with a key: it sends the requests of its profile, records the responses, and checks the records at the end.

import type { Limits } from "../../../src/rate-limit/windows.ts";
import type { Answer, Outgoing } from "./connections.ts";
import type { Pets } from "./pets.ts";
import type { Problems } from "./problems.ts";
import type { Profile } from "./profiles.ts";
import { type PlannedRequest, Requests } from "./requests.ts";
import { WindowRecords } from "./window-records.ts";

/** Runs shorter than a minute send a minute's requests in this share of the run, up to MAX_PER_SECOND, to reach limits. */
const SHARE_OF_SHORT_RUN = 0.75;
const MAX_PER_SECOND = { under: 8, at: 8, over: 8, waits: 16, floods: 24 };

/** The most of a day that a key under its limit uses in one run. */
const MAX_SHARE_OF_DAY = 0.8;

interface KeyClientOptions {
  number: number;
  profile: Profile;
  limits: Limits;
  secret: string;
  /** The duration of the run. */
  seconds: number;
  pets: Pets;
  problems: Problems;
}

export class KeyClient {
  readonly name: string;
  readonly records: WindowRecords;
  readonly burstsPerSecond: number;
  /** How often it was admitted after it had waited for Retry-After. */
  admittedAfterWait = 0;
  readonly #profile: Profile;
  readonly #headers: Record<string, string>;
  readonly #requests: Requests;
  readonly #problems: Problems;
  #unanswered = 0;
  #waitsUntilMs = 0;
  #hasWaited = false;

  constructor({ number, profile, limits, secret, seconds, pets, problems }: KeyClientOptions) {
    this.name = `key ${number} (${profile.plan}, ${profile.name})`;
    this.records = new WindowRecords(limits);
    this.burstsPerSecond = requestsPerSecond(profile, limits, seconds) / profile.burst;
    this.#profile = profile;
    this.#headers = { Authorization: `Bearer ${secret}`, "CF-Connecting-IP": `192.0.2.${number % 256}` };
    this.#requests = new Requests(pets, problems, number * 7, profile.name === "under");
    this.#problems = problems;
  }

  /** A request for the usage, which consumes nothing. */
  usage(): Outgoing {
    return { method: "GET", path: "/v1/usage", headers: this.#headers };
  }

  /** The requests to send now, at once. A client that waits sends none until all responses and Retry-After are over. */
  burst(): (PlannedRequest & { onAnswer(answer: Answer): void })[] {
    const isWaiting = this.#unanswered > 0 || Date.now() < this.#waitsUntilMs;
    if (this.#profile.name === "waits" && isWaiting) return [];
    this.#unanswered += this.#profile.burst;
    const hasWaited = this.#hasWaited;
    this.#hasWaited = false;
    return Array.from({ length: this.#profile.burst }, () => {
      const planned = this.#requests.next();
      const headers = { ...planned.headers, ...this.#headers };
      return { ...planned, headers, onAnswer: (answer) => this.#record(planned, answer, hasWaited) };
    });
  }

  #record(planned: PlannedRequest, answer: Answer, hasWaited: boolean): void {
    this.#unanswered -= 1;
    const outcome = this.records.record(answer);
    const what = `${this.name}: ${planned.method} ${planned.path}: ${answer.status} ${answer.body.slice(0, 200)}`;
    if (outcome === "admitted") {
      this.#problems.expect(answer.status === planned.status, `a response was not ${planned.status}`, what);
      if (answer.status === planned.status) planned.onAnswer?.(answer);
      if (hasWaited) this.admittedAfterWait += 1;
      return;
    }
    this.#problems.expect(!hasWaited, "a client was refused after Retry-After", what);
    if (this.#profile.name === "waits" && Date.now() >= this.#waitsUntilMs) {
      this.#waitsUntilMs = answer.cameAtMs + Number(answer.headers["retry-after"]) * 1000;
      this.#hasWaited = true;
    }
  }

  /** Checks the records against the limits and the profile. */
  check(problems: Problems): void {
    const { refused, banned } = this.records;
    this.records.check(this.name, problems);
    const { name } = this.#profile;
    problems.expect(
      name !== "under" || refused + banned === 0,
      "a client under its limit was refused",
      this.name,
    );
    problems.expect(
      name === "floods" || banned === 0,
      "a client with too few refusals was banned",
      this.name,
    );
  }
}

function requestsPerSecond({ name, share }: Profile, { minute, day }: Limits, seconds: number): number {
  const inShortRun = (share * minute) / (SHARE_OF_SHORT_RUN * seconds);
  const perSecond = seconds < 60 ? Math.min(inShortRun, MAX_PER_SECOND[name]) : (share * minute) / 60;
  return name === "under" ? Math.min(perSecond, (MAX_SHARE_OF_DAY * day) / seconds) : perSecond;
}
