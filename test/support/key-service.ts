// Isolates of one key, its real object, and a network that the test controls, on virtual time. All times count from START_MS. The world
// also checks its own guarantees in each test, such as the longest wait, the calls in a second, and the verdict about each secret.

import type { Limits } from "../../src/limits/windows.ts";
import { shortest } from "../../src/limits/windows.ts";
import { type Isolate, type Message, type Options, type Read, World } from "../simulation/world.ts";

/** To run to the end. */
export const END = Number.POSITIVE_INFINITY;
export const START_MS = Date.UTC(2026, 10, 22, 12, 34, 2);

/** How the network handles a message. `answer` has the object execute it, and returns the result. */
export type Handler = (message: Message, answer: () => void) => unknown;

export const works: Handler = (_, answer) => answer();
export const hangs: Handler = () => {};
const OVERLOADED = Object.assign(new Error("too many requests"), { overloaded: true });
/** Overloaded objects are not called again. */
export const isOverloaded: Handler = (message) => message.fail(OVERLOADED);

interface ServiceOptions extends Partial<Options> {
  isolates?: number;
  /** The lead of the first isolate's clock. */
  aheadMs?: number;
  /** Whether isolates don't know the key yet. */
  isCold?: boolean;
  /** One way, to the object, and from there to the primary. */
  tripMs?: number;
  toPrimaryMs?: number;
}

export function newService(limits: Limits, options: ServiceOptions = {}) {
  const { isolates = 1, aheadMs = 0, isCold = false, tripMs = 50, toPrimaryMs = 0, ...rest } = options;
  const network = { tripMs, handle: works, isPrimaryAway: false };
  const calls: { atMs: number; kind: string; message: Message }[] = [];
  const reads: number[] = [];
  const nowMs = () => world.time.nowMs - START_MS;
  const answer = (message: Message, backMs = network.tripMs) =>
    world.time.after(network.tripMs, async () => {
      const reply = await message.deliver();
      world.persist();
      if (reply !== undefined) world.time.after(backMs, reply);
    });
  const send = (message: Message) => {
    const kind = message.request.isolate === "" ? "identify" : "acquire";
    calls.push({ atMs: nowMs(), kind, message });
    network.handle(message, () => answer(message));
  };
  const read = ({ deliver }: Read) => {
    reads.push(nowMs());
    if (!network.isPrimaryAway) world.time.after(toPrimaryMs, () => world.time.after(toPrimaryMs, deliver()));
  };
  const world: World = new World({ startMs: START_MS, limits, send, read, polls: false, ...rest });
  const newIsolate = (ahead = 0) => {
    const isolate = world.newIsolate(ahead);
    if (!isCold) isolate.port.learnKey({ key: world.key, usableMs: 30_000 }, START_MS + ahead);
    return isolate;
  };
  const all = Array.from({ length: isolates }, (_, index) => newIsolate(index === 0 ? aheadMs : 0));
  const [isolate] = all as [Isolate, ...Isolate[]];
  const until = (atMs: number) =>
    new Promise<void>((resolve) => world.time.after(START_MS + atMs - world.time.nowMs, resolve));
  /** Sends a request at `atMs`, by default with a valid secret. There is no decision if the secret is not valid. */
  const ask = async (atMs: number, secret?: string, by = isolate) => {
    await until(atMs);
    const decision = await world.ask(by, secret);
    return { decision, waitedMs: nowMs() - atMs };
  };
  /** Sends a request with a valid secret at `atMs`. */
  const at = async (atMs: number, by = isolate) => {
    const { decision, waitedMs } = await ask(atMs, undefined, by);
    if (decision === undefined) throw new Error("a request has got no decision");
    return { decision, waitedMs };
  };
  const burst = (times: number, atMs: number, by = isolate) =>
    Array.from({ length: times }, () => at(atMs, by));
  const every = (ms: number, fromMs: number, toMs: number, by = isolate) =>
    Array.from({ length: Math.ceil((toMs - fromMs) / ms) }, (_, index) => at(fromMs + index * ms, by));
  /** Runs until `atMs`, and returns the answers to requests. */
  const run = async <Answers extends Promise<unknown>[]>(atMs: number, ...requests: Answers) => {
    await world.run(START_MS + atMs);
    return Promise.all(requests);
  };
  /** The times at which an isolate has called. */
  const sent = (by = isolate) =>
    calls.filter(({ message }) => message.isolate === by).map(({ atMs }) => atMs);
  /** The object's counts of this minute. */
  const counted = () => shortest(world.usage().status.windows);
  const used = () => counted().used;
  return {
    ...{ network, world, all, isolate, newIsolate, calls, reads, answer },
    ...{ ask, at, burst, every, run, sent, counted, used },
  };
}

export type Service = ReturnType<typeof newService>;
export type Answer = { waitedMs: number; decision?: { admitted: boolean } | undefined };

export const admissions = (answers: Answer[]) => answers.filter(({ decision }) => decision?.admitted).length;
export const longest = (answers: Answer[]) => Math.max(...answers.map(({ waitedMs }) => waitedMs));
