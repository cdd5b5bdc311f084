// The usage page: asks GET /v1/usage every other second, which costs nothing, as long as somebody looks, and draws what it
// says. What can't be had is said in a sentence, and what was known before stays on the page.

import type { UsageBody } from "../../rate-limit/usage/usage-body.ts";
import { problemWithKey, storedKey, storeKey } from "../key.ts";
import { drawDays } from "./days.ts";
import { drawGauge } from "./gauge.ts";
import { instant, NO_ANSWER, sentenceOf } from "./sentences.ts";

/** How often the service is asked, which looks at most once a second, and how often after no answer. */
const ASK_MS = 2_000;
const ASK_AFTER_FAILURE_MS = 5_000;

/** A key that is refused may be good again: after a minute, if others at its address have tried too many wrong ones. */
const ASK_AFTER_REFUSAL_MS = 60_000;

/** An answer that takes longer is none. */
const PATIENCE_MS = 10_000;

const form = element<HTMLFormElement>("#key-form");
const field = element<HTMLInputElement>("#key");
const forget = element<HTMLButtonElement>("#forget");
const problem = element<HTMLElement>("#problem");
const panel = element<HTMLElement>("#usage");
const state = element<HTMLElement>("#state");

/** Each key that is shown has a number; an answer for an earlier one comes too late. */
let showing = 0;
let timer: ReturnType<typeof setTimeout> | undefined;

/** Whether it was time to ask while nobody looked. */
let isDue = false;

form.addEventListener("submit", (event) => {
  event.preventDefault();
  storeKey(field.value);
  show();
});
forget.addEventListener("click", () => {
  storeKey("");
  show();
  // Nobody needs to be told that who has just forgotten a key has none.
  say(undefined);
  field.focus();
});
document.addEventListener("visibilitychange", () => {
  if (document.visibilityState === "visible" && isDue) askNow();
});
addEventListener("pageshow", ({ persisted }) => {
  // Whoever comes back to this page may have put another key into another one.
  if (persisted) show();
});

if (storedKey() !== "") show();

/** Begins with the key of this tab, or with none. */
function show(): void {
  const key = storedKey();
  field.value = key;
  forget.hidden = key === "";
  panel.hidden = true;
  clearTimeout(timer);
  isDue = false;
  showing += 1;
  const trouble = problemWithKey(key);
  say(trouble);
  if (trouble === undefined) askNow();
}

function askNow(): void {
  clearTimeout(timer);
  isDue = false;
  ask(storedKey(), showing).catch((error) => {
    say("This page has failed. Load it again.");
    throw error;
  });
}

/** Asks once, draws the answer, and has it asked again. */
async function ask(key: string, asking: number): Promise<void> {
  const answer = await fetchUsage(key);
  if (asking !== showing) return;
  if ("usage" in answer) {
    say(undefined);
    draw(answer.usage, answer.nowMs);
    askAgain(ASK_MS);
    return;
  }
  if (answer.isRefused) panel.hidden = true;
  say(panel.hidden ? answer.problem : `${answer.problem} What you see is what was known before.`);
  askAgain(answer.againInMs);
}

type Answer =
  | { usage: UsageBody; nowMs: number }
  | { problem: string; isRefused: boolean; againInMs: number };

/** What the service says of a key, or why it says nothing. */
async function fetchUsage(key: string): Promise<Answer> {
  try {
    const response = await fetch("/v1/usage", {
      headers: { Authorization: `Bearer ${key}` },
      cache: "no-store",
      signal: AbortSignal.timeout(PATIENCE_MS),
    });
    const { ok, status, headers } = response;
    const body = await response.text();
    const usage = ok ? usageIn(body) : undefined;
    if (usage !== undefined) return { usage, nowMs: serverClockMs(headers) };
    const retryAfterSeconds = Number(headers.get("Retry-After"));
    const isRefused = status === 401;
    const againInMs = isRefused ? ASK_AFTER_REFUSAL_MS : retryAfterSeconds * 1000 || ASK_AFTER_FAILURE_MS;
    return { problem: sentenceOf(status, body), isRefused, againInMs };
  } catch {
    return { problem: NO_ANSWER, isRefused: false, againInMs: ASK_AFTER_FAILURE_MS };
  }
}

/** The usage that a body tells of, or undefined if something else has answered for the service. */
function usageIn(body: string): UsageBody | undefined {
  try {
    const usage: Partial<UsageBody> = JSON.parse(body);
    return usage.days === undefined ? undefined : (usage as UsageBody);
  } catch {
    return undefined;
  }
}

function askAgain(inMs: number): void {
  clearTimeout(timer);
  timer = setTimeout(() => {
    isDue = true;
    if (document.visibilityState === "visible") askNow();
  }, inMs);
}

function draw(usage: UsageBody, nowMs: number): void {
  panel.hidden = false;
  const text = stateOf(usage, nowMs);
  if (state.textContent !== text) state.textContent = text;
  state.classList.toggle("banned", usage.bannedUntil !== null);
  drawGauge(element("#minute"), "This minute", usage.minute, nowMs);
  drawGauge(element("#day"), "This day (UTC)", usage.day, nowMs);
  drawDays(element("#chart"), element("#days"), usage.days);
}

/** How the key stands, in a sentence or two. */
function stateOf({ plan, minute, day, bannedUntil }: UsageBody, nowMs: number): string {
  const onPlan = `This key is on the ${plan.charAt(0).toUpperCase()}${plan.slice(1)} plan.`;
  const fullUntil = Math.max(...[minute, day].map(({ remaining, reset }) => (remaining === 0 ? reset : 0)));
  const isBanned = bannedUntil !== null && bannedUntil * 1000 > nowMs;
  const what = fullUntil === day.reset ? "day" : "minute";
  const ban = isBanned
    ? ` It is banned until ${instant(bannedUntil)}, because it was used again and again after it was limited.`
    : "";
  const full =
    fullUntil > (isBanned ? bannedUntil : 0)
      ? ` Its ${what} is used up: the next request is admitted from ${instant(fullUntil)} on.`
      : "";
  return onPlan + ban + full;
}

/** What the clock of the service says: the one of this machine may be wrong. */
function serverClockMs(headers: Headers): number {
  const date = Date.parse(headers.get("Date") ?? "");
  return Number.isNaN(date) ? Date.now() : date;
}

/** Shows a sentence about what went wrong, or takes the last one away. */
function say(sentence: string | undefined): void {
  problem.hidden = sentence === undefined;
  if (sentence !== undefined && problem.textContent !== sentence) problem.textContent = sentence;
}

function element<Kind extends Element>(selector: string): Kind {
  const found = document.querySelector<Kind>(selector);
  if (found === null) throw new Error(`the page has no ${selector}`);
  return found;
}
