// Texts and formats that the pages share.

/** The text for an error response: the message of the service, as a sentence. */
export function errorText(status: number, body: string): string {
  const { message } = errorIn(body);
  if (typeof message !== "string" || message === "") return `Unexpected response with status ${status}.`;
  return `${capitalize(message)}.`;
}

export const UNREACHABLE =
  "The service can't be reached: the network or something before the service failed, or the browser blocks the request.";

/** The fields of an error's body, which may be something else than the service's. */
export function errorIn(body: string): { code?: unknown; message?: unknown } {
  try {
    return JSON.parse(body) ?? {};
  } catch {
    return {};
  }
}

export function capitalize(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
}

/** `1,000`. */
export function formatNumber(value: number): string {
  return value.toLocaleString("en");
}

/** The local time: `14:35:00 UTC`, or `22 November at 09:00:00 GMT+9` if that is another day. */
export function formatInstant(unixSeconds: number): string {
  const date = new Date(unixSeconds * 1000);
  const isToday = date.toDateString() === new Date().toDateString();
  const digits = { hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "short" } as const;
  const time = date.toLocaleTimeString("en-GB", digits);
  return isToday ? time : `${date.toLocaleDateString("en-GB", { day: "numeric", month: "long" })} at ${time}`;
}
