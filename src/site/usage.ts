// The usage page: asks GET /v1/usage every other second, which costs nothing, as long as somebody looks, and draws what it
// says. What can't be had is said in a sentence, and what was known before stays on the page.

import type { UsageBody } from "../usage-body.ts";
import { drawDays } from "./days.ts";
import { drawGauge } from "./gauge.ts";
import { problemWithKey, storedKey, storeKey } from "./key.ts";
import { NO_ANSWER, sentenceOf, time } from "./sentences.ts";

/** How often the service is asked, which looks at most once a second, and how often after no answer. */
const ASK_MS = 2_000;
const ASK_AFTER_FAILURE_MS = 5_000;

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
  field.focus();
});
document.addEventListener("visibilitychange", () => {
  if (document.visibilityState === "visible" && isDue) askNow();
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
  // Nobody needs to be told that who has just forgotten a key has none.
  const trouble = problemWithKey(key);
  say(document.activeElement === forget ? undefined : trouble);
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

/** Asks once, draws the answer, and sees to it that it is asked again, if that makes sense. */
async function ask(key: string, asking: number): Promise<void> {
  let response: Response;
  let body: string;
  try {
    response = await fetch("/v1/usage", { headers: { Authorization: `Bearer ${key}` }, cache: "no-store" });
    body = await response.text();
  } catch {
    if (asking !== showing) return;
    say(NO_ANSWER + (panel.hidden ? "" : " What you see is what was known before."));
    askAgain(ASK_AFTER_FAILURE_MS);
    return;
  }
  if (asking !== showing) return;
  if (!response.ok) {
    say(sentenceOf(response.status, body));
    const retryAfterSeconds = Number(response.headers.get("Retry-After"));
    // A key that is no key does not become one.
    if (response.status === 401) panel.hidden = true;
    else askAgain(retryAfterSeconds > 0 ? retryAfterSeconds * 1000 : ASK_AFTER_FAILURE_MS);
    return;
  }
  say(undefined);
  draw(JSON.parse(body), serverClockMs(response));
  askAgain(ASK_MS);
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
  if (bannedUntil !== null && bannedUntil * 1000 > nowMs) {
    return `${onPlan} It is banned until ${time(bannedUntil)}, because it was used again and again after it was limited.`;
  }
  if (day.remaining === 0) {
    return `${onPlan} Its day is used up: the next request is admitted at ${time(day.reset)}.`;
  }
  if (minute.remaining === 0) {
    return `${onPlan} Its minute is used up: the next request is admitted at ${time(minute.reset)}.`;
  }
  return onPlan;
}

/** What the clock of the service says: the one of this machine may be wrong. */
function serverClockMs(response: Response): number {
  const date = Date.parse(response.headers.get("Date") ?? "");
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
