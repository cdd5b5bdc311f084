// The usage page: polls GET /v1/usage, which costs nothing, while the page is visible, and draws the response. If a request fails,
// the page shows the problem and keeps the last known data.

import { HEADER } from "../../http/header-names.ts";
import { markedDays } from "../../keys/usage/demand.ts";
import type { UsageBody } from "../../keys/usage/usage-body.ts";
import { problemWithKey, storedKey, storeKey } from "../key.ts";
import { errorText, UNREACHABLE } from "../text.ts";
import { adviceOn, limitsOfWindows, totalsOf } from "./advice.ts";
import { chartSvg, legend, tableOf } from "./chart.ts";
import { stateTexts } from "./figures.ts";
import { drawGauges } from "./gauge.ts";

const POLL_MS = 2_000;
const POLL_AFTER_FAILURE_MS = 5_000;

/** After a 401. The key may become valid while the page is open. */
const POLL_AFTER_REFUSAL_MS = 60_000;

const TIMEOUT_MS = 10_000;

const form = element<HTMLFormElement>("#key-form");
const field = element<HTMLInputElement>("#key");
const forget = element<HTMLButtonElement>("#forget");
const problemField = element<HTMLElement>("#problem");
const panel = element<HTMLElement>("#usage");
const state = element<HTMLElement>("#state");

/** Counts the keys shown, so that late responses for earlier keys are dropped. */
let generation = 0;
let timer: ReturnType<typeof setTimeout> | undefined;

/** Whether the timer ended while the page was hidden. */
let isDue = false;

let drawnDays = "";

form.addEventListener("submit", (event) => {
  event.preventDefault();
  storeKey(field.value);
  show();
});
forget.addEventListener("click", () => {
  storeKey("");
  show();
  // Without the problem that the key is missing.
  showProblem(undefined);
  field.focus();
});
document.addEventListener("visibilitychange", () => {
  if (document.visibilityState === "visible" && isDue) poll();
});
addEventListener("pageshow", ({ persisted }) => {
  // The key may have changed on another page.
  if (persisted) show();
});

if (storedKey() !== "") show();

/** Shows the key of this tab, or none. */
function show(): void {
  const key = storedKey();
  field.value = key;
  forget.hidden = key === "";
  panel.hidden = true;
  clearTimeout(timer);
  isDue = false;
  generation += 1;
  const problem = problemWithKey(key);
  showProblem(problem);
  if (problem === undefined) poll();
}

function poll(): void {
  clearTimeout(timer);
  isDue = false;
  update(storedKey(), generation).catch((error) => {
    showProblem("Internal error: reload the page.");
    throw error;
  });
}

/** Fetches and draws the usage once, and schedules the next poll. */
async function update(key: string, ownGeneration: number): Promise<void> {
  const result = await fetchUsage(key);
  if (ownGeneration !== generation) return;
  if ("usage" in result) {
    showProblem(undefined);
    draw(result.usage, result.nowMs);
    schedule(POLL_MS);
    return;
  }
  if (result.isUnauthorized) panel.hidden = true;
  showProblem(panel.hidden ? result.problem : `${result.problem} The page shows the last known data.`);
  schedule(result.retryMs);
}

type Result =
  | { usage: UsageBody; nowMs: number }
  | { problem: string; isUnauthorized: boolean; retryMs: number };

async function fetchUsage(key: string): Promise<Result> {
  try {
    const response = await fetch("/v1/usage", {
      headers: { Authorization: `Bearer ${key}` },
      cache: "no-store",
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    const { ok, status, headers } = response;
    const body = await response.text();
    const usage = ok ? usageIn(body) : undefined;
    // The local clock may be wrong.
    if (usage !== undefined) return { usage, nowMs: Date.parse(headers.get("Date") ?? "") || Date.now() };
    const retryAfterSeconds = Number(headers.get(HEADER.retryAfter));
    const isUnauthorized = status === 401;
    const retryMs = isUnauthorized
      ? POLL_AFTER_REFUSAL_MS
      : retryAfterSeconds * 1000 || POLL_AFTER_FAILURE_MS;
    return { problem: errorText(status, body), isUnauthorized, retryMs };
  } catch {
    return { problem: UNREACHABLE, isUnauthorized: false, retryMs: POLL_AFTER_FAILURE_MS };
  }
}

/** Parses the usage. Undefined if something else, such as a proxy, has sent the response. */
function usageIn(body: string): UsageBody | undefined {
  try {
    const usage: Partial<UsageBody> = JSON.parse(body);
    return usage.days === undefined ? undefined : (usage as UsageBody);
  } catch {
    return undefined;
  }
}

function schedule(delayMs: number): void {
  clearTimeout(timer);
  timer = setTimeout(() => {
    isDue = true;
    if (document.visibilityState === "visible") poll();
  }, delayMs);
}

function draw(usage: UsageBody, nowMs: number): void {
  panel.hidden = false;
  const { text, isBanned } = stateTexts(usage, nowMs);
  if (state.textContent !== text) state.textContent = text;
  state.classList.toggle("banned", isBanned);
  drawGauges(element("#gauges"), usage, nowMs);
  drawDays(usage);
}

/** What is unchanged is not redrawn, so that tooltips stay open. */
function drawDays(usage: UsageBody): void {
  const days = markedDays(usage.days, limitsOfWindows(usage.windows));
  const advice = adviceOn(days, usage.windows);
  const latest = JSON.stringify([days, advice]);
  if (latest === drawnDays) return;
  drawnDays = latest;
  const totals = totalsOf(days).map(([title, total]) => `<div><dt>${title}</dt><dd>${total}</dd></div>`);
  element("#totals").innerHTML = totals.join("");
  element("#advice").textContent = advice;
  element("#chart").innerHTML = chartSvg(days);
  element("#legend").innerHTML = legend();
  element("#days").innerHTML = tableOf(days);
}

/** Shows a problem, or hides the last one. */
function showProblem(text: string | undefined): void {
  problemField.hidden = text === undefined;
  if (text !== undefined && problemField.textContent !== text) problemField.textContent = text;
}

function element<Kind extends Element>(selector: string): Kind {
  const found = document.querySelector<Kind>(selector);
  if (found === null) throw new Error(`the page has no ${selector}`);
  return found;
}
