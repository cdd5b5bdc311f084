// The client against the service, when connections break and responses are lost.

import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { afterAll, beforeAll, expect, it, onTestFinished, vi } from "vitest";
import { addTablesAndPets, NO_LIMIT, newKey } from "../../bench/cases/pets.ts";
import { PETSTORE } from "../../bench/measure/implementations.ts";
import { type Databases, startWorkers } from "../../bench/measure/workerd.ts";
import { ConnectionError, type CreateOptions, Petstore, TimeoutError } from "../../client/src/index.ts";
import { PATIENT } from "../support/hang.ts";

let url: URL;
let databases: Databases;
let stop: () => Promise<void>;

beforeAll(async () => {
  // Without wrangler's proxy, which logs each lost connection.
  const service = await startWorkers([PETSTORE], true);
  ({ stop } = service);
  ({ url } = service.workers[0]);
  databases = await service.workers[0].databases();
  await addTablesAndPets(databases, 0);
});

afterAll(() => stop());

/** Ends waits between retries, until the test is over. */
function retryAtOnce(): void {
  vi.spyOn(Math, "random").mockReturnValue(0);
  onTestFinished(() => void vi.restoreAllMocks());
}

/** Moves the clock that calls wait by forward, until the test is over. */
function skipSeconds(seconds: number): void {
  const now = performance.now.bind(performance);
  vi.spyOn(performance, "now").mockImplementation(() => now() + seconds * 1_000);
  onTestFinished(() => void vi.restoreAllMocks());
}

/** The names of all pets that begin with this. */
async function namesOf(prefix: string): Promise<string[]> {
  const query = databases.pets.prepare("SELECT name FROM pets WHERE instr(name, ?1) = 1");
  const { results } = await query.bind(prefix).all<{ name: string }>();
  return results.map(({ name }) => name).sort();
}

/** How a connection breaks: once so many bytes of request and response have passed. */
interface Fault {
  bytes: number;
  how: "RST" | "FIN";
}

/** A proxy whose connections break. `passed`: how many bytes have passed. */
async function startProxy(faultOf: (connection: number) => Fault | undefined) {
  const sockets = new Set<Socket>();
  const proxy = { baseURL: "", passed: 0, stop };
  let connections = 0;
  const server = createServer((client) => {
    const service = connect(Number(url.port), "127.0.0.1");
    const fault = faultOf(connections++);
    let left = fault?.bytes ?? Number.POSITIVE_INFINITY;
    const pass = (from: Socket, to: Socket) => {
      sockets.add(from);
      from.on("error", () => {}).on("close", () => to.end());
      from.on("data", (chunk) => {
        to.write(chunk.subarray(0, Math.max(0, left)));
        left -= chunk.length;
        proxy.passed += chunk.length;
        // What has passed arrives, unless a reset overtakes it.
        if (left <= 0)
          for (const socket of [client, service])
            fault?.how === "RST" ? socket.resetAndDestroy() : socket.end();
      });
    };
    pass(client, service);
    pass(service, client);
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  proxy.baseURL = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return proxy;

  function stop(): void {
    for (const socket of sockets) socket.destroy();
    server.close();
  }
}

it("a creation survives a lost connection, whenever that breaks, and adds one pet", async () => {
  const apiKey = await newKey(databases.keys, NO_LIMIT);
  retryAtOnce();

  /** Adds a pet through a proxy, with the fault as its name. Returns how many bytes have passed. */
  const create = async (fault?: Fault) => {
    const proxy = await startProxy((connection) => (connection === 0 ? fault : undefined));
    const { pets } = new Petstore({ apiKey, baseURL: proxy.baseURL, ...PATIENT });
    const sent = { name: `once ${JSON.stringify(fault)}`, categoryId: 1n };
    expect(await pets.create(sent).finally(proxy.stop)).toMatchObject(sent);
    return proxy.passed;
  };
  // Some headers vary in length. After every seventh byte in turn, the connection is reset or ended.
  const faults = Array.from({ length: ((await create()) + 16) / 7 }, (_, index): Fault => {
    return { bytes: 7 * index, how: index % 2 === 0 ? "RST" : "FIN" };
  });
  const left = [...faults];
  const worker = async () => {
    for (let fault = left.pop(); fault; fault = left.pop()) await create(fault);
  };
  await Promise.all(Array.from({ length: 8 }, worker));
  const names = [...faults, undefined].map((fault) => `once ${JSON.stringify(fault)}`);
  expect(await namesOf("once ")).toEqual(names.sort());
});

it("createMany adds each pet once, though all connections break, and though a program ends and begins again", async () => {
  const apiKey = await newKey(databases.keys, NO_LIMIT);
  retryAtOnce();
  // A creation takes some 1,200 bytes.
  const proxy = await startProxy((connection) => {
    return { bytes: 200 + ((37 * connection) % 5_000), how: connection % 2 === 0 ? "RST" : "FIN" };
  });
  onTestFinished(proxy.stop);
  const inputs = Array.from({ length: 120 }, (_, index) => ({ name: `many ${index}`, categoryId: 1n }));

  /** Adds pets, and ends early after so many. Returns their ids. */
  const run = async (end: number) => {
    const { pets } = new Petstore({ apiKey, baseURL: proxy.baseURL, ...PATIENT, maxRetries: 100 });
    const ids: bigint[] = [];
    for await (const { index, input, pet, error } of pets.createMany(inputs, { idempotencyKey: "many" })) {
      expect([index, input, error]).toEqual([ids.length, inputs[index], undefined]);
      expect(pet).toMatchObject(input);
      if (pet && ids.push(pet.id) === end) break;
    }
    return ids;
  };
  const begun = await run(40);
  const ids = await run(inputs.length);
  expect(ids.slice(0, 40)).toEqual(begun);
  expect(await namesOf("many ")).toEqual(inputs.map(({ name }) => name).sort());
});

/** The requests of a minute and of a day, so that a minute which begins during a test makes no difference. */
const LIMIT = 60;
const LOST = 30;
const TIMEOUT_MS = 10_000;

it.each([
  ["aborted", DOMException],
  ["timed out", TimeoutError],
  ["broken", ConnectionError],
])("a paced client that is alone with its key is not refused after %s requests", async (how, reason) => {
  const apiKey = await newKey(databases.keys, LIMIT);
  // Every second connection breaks in its request, which is not counted then, and the others in the response.
  const proxy = await startProxy((connection) => ({ bytes: connection % 2 === 0 ? 50 : 600, how: "RST" }));
  onTestFinished(proxy.stop);
  const lost = new AbortController();
  const statuses: number[] = [];
  let isLosing = true;
  const store = new Petstore({
    ...{ apiKey, baseURL: url, pace: true, ...PATIENT },
    async fetch(input, init) {
      const isLost = isLosing && init?.method === "POST";
      const base = isLost && how === "broken" ? proxy.baseURL : url;
      const response = await fetch(new URL(new URL(`${input}`).pathname, base), init);
      statuses.push(response.status);
      if (!isLost || how === "broken") return response;
      // With that of GET /v1/usage, all have come.
      if (statuses.length > LOST) how === "aborted" ? lost.abort() : vi.advanceTimersByTime(TIMEOUT_MS);
      // The rest of it is still on its way when the call ends.
      return new Promise(() => {});
    },
  });
  const create = (count: number, options: CreateOptions = {}) => {
    const calls = Array.from({ length: count }, () =>
      store.pets.create({ name: how, categoryId: 1 }, options),
    );
    return Promise.allSettled(calls);
  };
  if (how === "timed out") vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
  const options = { maxRetries: 0, timeoutMs: TIMEOUT_MS, signal: lost.signal };
  for (const call of await create(LOST, options))
    expect(call).toEqual({ status: "rejected", reason: expect.any(reason) });
  vi.useRealTimers();
  isLosing = false;
  // Requests that were lost count for some seconds.
  if (how === "broken") skipSeconds(10);

  for (const call of await create(LIMIT))
    if (call.status === "rejected")
      expect(call.reason).toMatchObject({ name: "RateLimitError", attempts: 0 });
  expect(statuses).not.toContain(429);
  // They used what was left.
  expect((await store.usage()).windows.day).toMatchObject({ used: LIMIT });
});
