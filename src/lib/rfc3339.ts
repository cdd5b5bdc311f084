// Times as text (RFC 3339), in UTC.

/** Without fractions of a second, such as `2026-11-20T12:34:56Z`. */
export function formatTime(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d+Z$/, "Z");
}

/** The UTC day, such as `2026-11-20`. */
export function formatDate(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}
