// What the usage page says about a key's state and windows. `nowMs` is Unix time.

import type { UsageBody, UsageWindow } from "../../keys/usage/usage-body.ts";
import { capitalize, formatInstant, formatNumber } from "../text.ts";

export interface State extends Pick<UsageBody, "plan" | "bannedUntil"> {
  windows: Record<string, UsageWindow>;
}

/** The plan, and the ban and the exhausted window if there are any. */
export function stateTexts(state: State, nowMs: number) {
  const { bannedUntil, fullUntil, window } = obstacles(state, nowMs);
  const sentences = [`This key is on the ${capitalize(state.plan)} plan.`];
  if (bannedUntil > 0)
    sentences.push(
      `It is temporarily banned until ${formatInstant(bannedUntil)} for ignoring 429 responses.`,
    );
  if (fullUntil > bannedUntil)
    sentences.push(`Its limit per ${window} is exhausted until ${formatInstant(fullUntil)}.`);
  return { text: sentences.join(" "), isBanned: bannedUntil > 0 };
}

/** The texts of a window's gauge, the length of its bar in percent, and its level, which decides the colour. */
export function gaugeFigures(state: State, { limit, used, remaining, reset }: UsageWindow, nowMs: number) {
  const { bannedUntil, fullUntil } = obstacles(state, nowMs);
  const until = Math.max(bannedUntil, fullUntil);
  // What this window has left is of no use during a ban, or until a longer window resets.
  const isBlocked = bannedUntil > 0 || until > reset;
  const left = isBlocked
    ? `nothing admitted until ${formatInstant(until)}`
    : `${formatNumber(remaining)} left`;
  // After a change to a smaller plan, `used` can exceed `limit`.
  const share = Math.min(100, (100 * used) / limit);
  return {
    used: formatNumber(used),
    of: `of ${formatNumber(limit)}`,
    left,
    reset: `resets in ${duration(reset * 1000 - nowMs)}`,
    percent: used === 0 ? 0 : Math.max(1, share),
    level: isBlocked || remaining === 0 ? "empty" : share >= 80 ? "low" : "fine",
    current: Math.min(used, limit),
    description: `${formatNumber(used)} of ${formatNumber(limit)} used, ${left}`,
  };
}

/** The end of the ban, and of several exhausted windows the longest with its end (Unix time in seconds); 0 if there is none. */
function obstacles({ windows, bannedUntil }: State, nowMs: number) {
  const [window, full] = Object.entries(windows).findLast(([, { remaining }]) => remaining === 0) ?? [];
  const isBanned = bannedUntil !== null && bannedUntil * 1000 > nowMs;
  return { bannedUntil: isBanned ? bannedUntil : 0, fullUntil: full?.reset ?? 0, window };
}

/** `40 s`, `11 h 25 min`. */
function duration(ms: number): string {
  const seconds = Math.max(0, Math.ceil(ms / 1000));
  if (seconds < 120) return `${seconds} s`;
  const minutes = Math.ceil(seconds / 60);
  return minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
