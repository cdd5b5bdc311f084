// ./petstore dashboard: shows keys, their usage and changes, and the state of the service in a browser. Nothing can be changed there.

import { randomBytes } from "node:crypto";
import { announceTarget, readTarget, TARGET_OPTIONS } from "../cloudflare/target.ts";
import { newApp } from "../dashboard/app.ts";
import { openInBrowser } from "../dashboard/browser.ts";
import { Readings } from "../dashboard/readings.ts";
import { serve } from "../dashboard/server.ts";
import { readOrigin } from "../deploy/smoke-test.ts";
import { defineCommand, integer } from "../lib/command.ts";
import { untilSignal } from "../lib/interrupt.ts";

export default defineCommand({
  description:
    "Shows all keys with their usage, each key with its changes and the reasons why it is refused, and the state of the service, as pages in a browser, until Ctrl+C. Nothing can be changed there. It prints the address, which only this machine can reach, and only who knows it: keep it for yourself.",
  options: {
    port: {
      placeholder: "n",
      description: "the port (default: a free one)",
      parse: integer(1, 65_535),
    },
    url: { placeholder: "url", description: "the service's URL, to show its build", parse: readOrigin },
    printOnly: { description: "print the address, and open no browser" },
    ...TARGET_OPTIONS,
  },
  examples: ["", "--remote", "--preview staging --port 9000 --print-only"],
  async handler(io, { port = 0, url, printOnly, ...options }) {
    const target = readTarget(io, options);
    announceTarget(io, target);
    const readings = new Readings(target, url);
    await io.step("Opening the databases", () => readings.requireOne());
    // 128 bits can't be guessed.
    const token = randomBytes(16).toString("base64url");
    const { origin, close } = await serve(newApp(readings, token), port);
    const address = `${origin}/${token}/`;
    const ended = untilSignal();
    await io.printOnce(address);
    const failed = (reason: string) => io.note(`No browser was opened (${reason}).`);
    const remove = printOnly ? undefined : await openInBrowser(address, failed);
    io.note("Ctrl+C ends it.");
    await ended;
    await Promise.all([close(), readings.close(), remove?.()]);
  },
});
