// What a command prints can't rule a terminal, whatever a file, a database or the network has put into it.

import { PassThrough } from "node:stream";
import { text } from "node:stream/consumers";
import { expect, it, onTestFinished, vi } from "vitest";
import { failureLine, Io } from "../../scripts/lib/io.ts";

/** The title of a terminal, a colour in the form of 8 bits, the reversal of what follows, another line, a tag of a flag, a line separator. */
const FOREIGN = "Rex\u001b]0;title\u0007\u009b31m\u202e\u{e0067}\u2028\r\b🐕";

const written = async (work: (io: Io) => void | Promise<void>) => {
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  await work(new Io({ stdin: new PassThrough(), stdout, stderr, env: {} }));
  stdout.end();
  stderr.end();
  return Promise.all([text(stdout), text(stderr)]);
};

it("texts for people are shown with ? in the place of what rules a terminal", async () => {
  const shown = "Rex?]0;title??31m?????🐕";
  expect(await written((io) => io.print(`${FOREIGN}\n\tx`))).toEqual([`${shown}\n\tx\n`, ""]);
  expect(await written((io) => io.report(FOREIGN))).toEqual(["", `${shown}\n`]);
  expect(await written((io) => io.note(FOREIGN))).toEqual(["", `${shown}\n`]);
  expect(await written((io) => io.step(FOREIGN, async () => {}))).toEqual(["", `${shown}\n`]);
  expect(await written((io) => io.warn(failureLine(new Error(FOREIGN))))).toEqual([
    "",
    `warning: error: ${shown}\n`,
  ]);
});

it("work that takes long tells its progress every 10 s", async () => {
  vi.useFakeTimers({ toFake: ["Date"], now: 0 });
  onTestFinished(() => void vi.useRealTimers());
  const [, stderr] = await written((io) =>
    io.step("Reading", async (progress) => {
      for (const seconds of [9, 10, 19, 20]) {
        vi.setSystemTime(seconds * 1000);
        progress(`${seconds} rows`);
      }
    }),
  );
  expect(stderr).toBe("Reading\n  10 rows\n  20 rows\n");
});

it("joiners are shown within emoji and between letters that need them, and nowhere else", async () => {
  const joined = "👩🏽\u200d💻 ❤\ufe0f\u200d🔥 می\u200cخواهم क्\u200dष";
  expect(await written((io) => io.print(joined))).toEqual([`${joined}\n`, ""]);
  expect(await written((io) => io.print("\u200d💻\u200d Jo\u200cAnn 👩\u200d\u200d💻"))).toEqual([
    "?💻? Jo?Ann 👩??💻\n",
    "",
  ]);
});

it("JSON has the same text, and only printable characters", async () => {
  const [json] = await written((io) => io.printJson({ name: FOREIGN }));
  expect(JSON.parse(json)).toEqual({ name: FOREIGN });
  expect(json.trimEnd()).not.toMatch(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u);
  const [once] = await written((io) => io.printOnce(JSON.stringify({ name: FOREIGN })));
  expect(JSON.parse(once)).toEqual({ name: FOREIGN });
  expect(once.trimEnd()).not.toMatch(/\p{Cc}/u);
});
