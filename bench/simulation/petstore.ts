// This service: its own Durable Object and what runs in its isolates, in the world of its simulation. Storage, alarms, reads of the
// record and writes of usage are counted, because Cloudflare charges for them.

import { shortest } from "../../src/limits/windows.ts";
import { type Isolate, World } from "../../test/simulation/world.ts";
import { NO_COUNTS } from "./counts.ts";
import { type Limiter, type Setting, START_MS } from "./limiter.ts";
import { Network, TO_PRIMARY_MS } from "./network.ts";

export function petstore({ limit, isolates, random, lostShare }: Setting): Limiter {
  const counts = { ...NO_COUNTS };
  let puts = 0;
  const persist = () => {
    // The alarm is a row of its own, written when its time changes.
    for (const { alarmMs } of [...world.storage.writing]) {
      if (alarmMs !== world.storage.durable?.alarmMs) counts.rowsWritten += 1;
      world.written();
    }
    counts.rowsWritten += world.counts.puts - puts;
    puts = world.counts.puts;
  };
  const world: World = new World({
    startMs: START_MS,
    limits: { minute: limit, day: 1_000 * limit },
    random: () => random.next(),
    send: (message) => {
      const execute = async () => {
        counts.objectRequests += 1;
        // An object that loses its memory reads its one value again.
        if (world.evict()) counts.rowsRead += 1;
        const answer = await message.deliver();
        persist();
        return answer;
      };
      void network.call(places.get(message.isolate) ?? 0, execute, true).then(
        (answer) => answer?.(),
        (error) => message.fail(error),
      );
    },
    read: ({ deliver }) => {
      counts.rowsRead += 1;
      const answer = deliver();
      world.time.after(TO_PRIMARY_MS, answer);
    },
    persist: () => {
      counts.objectRequests += 1;
      persist();
    },
    write: async (execute) => {
      counts.rowsWritten += 1;
      execute();
    },
  });
  const network = new Network(world.time, random, lostShare);
  const places = new Map<Isolate, number>();
  const current: Isolate[] = [];
  const begin = (place: number) => {
    const isolate = world.newIsolate();
    places.set(isolate, place);
    current[place] = isolate;
  };
  for (let place = 0; place < isolates; place += 1) begin(place);
  return {
    time: world.time,
    counts,
    ask: async (place) => {
      const decision = await world.ask(current[place] as Isolate);
      if (decision === undefined) throw new Error("no decision");
      const { admitted, windows } = decision;
      return { admitted, minuteMs: shortest(windows).startMs };
    },
    endIsolate: (place) => {
      world.end(current[place] as Isolate);
      begin(place);
    },
    crash: () => {
      network.crash();
      world.crash(0);
    },
    check: () => world.throwFailure(),
  };
}
