// What the rule of a window alone does, wherever it is counted: one exact counter, and clients that send bursts of as many requests as
// the limit.

import type { Table } from "../measure/report.ts";

const LIMIT = 300;
const MINUTE_S = 60;

/** Decides a request at a time in seconds, and counts it if it is admitted. */
type Rule = () => (atS: number) => boolean;

/** Aligned minutes. Of this service. */
const fixed: Rule = () => {
  let count = { minute: -1, used: 0 };
  return (atS) => {
    const minute = Math.floor(atS / MINUTE_S);
    if (count.minute !== minute) count = { minute, used: 0 };
    if (count.used >= LIMIT) return false;
    count.used += 1;
    return true;
  };
};

/**
 * Aligned minutes, with what has not passed yet of the last one, as if its requests had been even. Of unkey (ratelimit.go,
 * slidingWindowCount), and of Cloudflare's rules for zones in 2017 ("Counting things, a lot of different things").
 */
const slidingCounter: Rule = () => {
  const used = new Map<number, number>();
  return (atS) => {
    const minute = Math.floor(atS / MINUTE_S);
    const passed = (atS % MINUTE_S) / MINUTE_S;
    const current = used.get(minute) ?? 0;
    const estimated = current + Math.floor((used.get(minute - 1) ?? 0) * (1 - passed));
    if (estimated >= LIMIT) return false;
    used.set(minute, current + 1);
    return true;
  };
};

/** The time of each admitted request. */
const slidingLog: Rule = () => {
  const admittedS: number[] = [];
  return (atS) => {
    while ((admittedS[0] ?? atS) <= atS - MINUTE_S) admittedS.shift();
    if (admittedS.length >= LIMIT) return false;
    admittedS.push(atS);
    return true;
  };
};

/** The generic cell rate algorithm: the time of the next request, at the rate of the limit, if bursts of the limit may come earlier. */
const nextTime: Rule = () => {
  let nextS = 0;
  return (atS) => {
    const afterS = Math.max(nextS, atS) + MINUTE_S / LIMIT;
    if (afterS - atS > MINUTE_S + 1e-6) return false;
    nextS = afterS;
    return true;
  };
};

const RULES: [name: string, rule: Rule, state: string, room: string][] = [
  ["fixed window (this service)", fixed, "1 count", "for all at the reset"],
  ["sliding counter (unkey)", slidingCounter, "2 counts", "bit by bit, by an estimate"],
  ["sliding log", slidingLog, `${LIMIT} times`, "as each request becomes a minute old"],
  ["next time (GCRA)", nextTime, "1 time", `one request each ${MINUTE_S / LIMIT} s`],
];

export function windowRules(): Table {
  return {
    title: "windows",
    columns: [
      "Rule",
      "Two bursts 1 s apart: admitted, % of the limit",
      "Up to 59 s apart, %",
      "One burst a minute, %",
      "State",
      "Room again",
    ],
    rows: RULES.map(([name, rule, state, room]) => [
      name,
      most(rule, 2),
      most(rule, MINUTE_S),
      patient(rule),
      state,
      room,
    ]),
  };
}

/** A burst of the limit at each second of a minute, and another one less than `spanS` seconds later. */
function most(newRule: Rule, spanS: number): string {
  let largest = 0;
  for (let firstS = MINUTE_S; firstS < 2 * MINUTE_S; firstS += 1)
    for (let laterS = 1; laterS < spanS; laterS += 1) {
      const rule = newRule();
      largest = Math.max(largest, burst(rule, firstS) + burst(rule, firstS + laterS));
    }
  return percent(largest / LIMIT);
}

/** A burst of the limit at the same second of each of many minutes: the least and the most by the second. */
function patient(newRule: Rule): string {
  const MINUTES = 60;
  const shares: number[] = [];
  for (let secondS = 0; secondS < MINUTE_S; secondS += 1) {
    const rule = newRule();
    let admitted = 0;
    for (let minute = 1; minute <= MINUTES; minute += 1) admitted += burst(rule, minute * MINUTE_S + secondS);
    shares.push(admitted / (MINUTES * LIMIT));
  }
  const [least, largest] = [percent(Math.min(...shares)), percent(Math.max(...shares))];
  return least === largest ? least : `${least} to ${largest}`;
}

function burst(rule: (atS: number) => boolean, atS: number): number {
  let admitted = 0;
  for (let request = 0; request < LIMIT; request += 1) if (rule(atS)) admitted += 1;
  return admitted;
}

function percent(share: number): string {
  return `${Math.round(100 * share)}`;
}
