// What a person is told about an answer of the service, or that there is none: one sentence, or two; and how figures are
// written in all of them.

/** The sentence for an error in the body of an answer: the service's own, which is for people. */
export function sentenceOf(status: number, body: string): string {
  const message = messageIn(body);
  if (message === undefined)
    return `The service answered with status ${status}, and nothing that this page understands.`;
  return `${message.charAt(0).toUpperCase()}${message.slice(1)}.`;
}

export const NO_ANSWER =
  "There is no answer: the service can't be reached. Look at your connection, and try again.";

function messageIn(body: string): string | undefined {
  try {
    const { message } = JSON.parse(body);
    return typeof message === "string" && message !== "" ? message : undefined;
  } catch {
    return undefined;
  }
}

/** A number with its thousands told apart: `1,000`. */
export function number(value: number): string {
  return value.toLocaleString("en");
}

/** An instant, as the reader's clock shows it: `14:35:00 UTC`, or `22 November at 09:00:00 GMT+9` if that is another day. */
export function instant(unixSeconds: number): string {
  const date = new Date(unixSeconds * 1000);
  const isToday = date.toDateString() === new Date().toDateString();
  const digits = { hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "short" } as const;
  const time = date.toLocaleTimeString("en-GB", digits);
  return isToday ? time : `${date.toLocaleDateString("en-GB", { day: "numeric", month: "long" })} at ${time}`;
}
