// The client against the service, through a proxy that breaks connections, and at a limit that it must not exceed.

import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { afterAll, beforeAll, beforeEach, expect, it, vi } from "vitest";
import { addTablesAndPets, newKey } from "../../bench/cases/pets.ts";
import { PETSTORE } from "../../bench/measure/implementations.ts";
import { type Databases, startWorkers } from "../../bench/measure/workerd.ts";
import { Petstore } from "../../client/src/index.ts";
import { HEADER } from "../../src/http/header-names.ts";
import { createKey } from "../../src/operators/admin.ts";

// Without wrangler's proxy, which logs each lost connection.
let service: Awaited<ReturnType<typeof startWorkers<[typeof PETSTORE]>>>;
let origin: URL;
let databases: Databases;

beforeAll(async () => {
  service = await startWorkers([PETSTORE], true);
  origin = service.workers[0].url;
  databases = await service.workers[0].databases();
  await addTablesAndPets(databases, 0);
});

afterAll(() => service.stop());

// No waits between retries.
beforeEach(() => {
  vi.spyOn(Math, "random").mockReturnValue(0);
  return () => vi.restoreAllMocks();
});

const SIDES = ["request", "response"] as const;
/** How the first connection breaks: once so many bytes of a side have passed. */
type Fault = { side: (typeof SIDES)[number]; bytes: number; how: "RST" | "FIN" };

/** A proxy of the service, and how many bytes of each side its last connection has passed. */
async function startProxy(fault?: Fault) {
  const sockets = new Set<Socket>();
  const passed = { request: 0, response: 0 };
  let left = fault;
  const server = createServer((client) => {
    const own = left;
    left = undefined;
    const service = connect(Number(origin.port), "127.0.0.1");
    Object.assign(passed, { request: 0, response: 0 });
    const end = (socket: Socket) => (own?.how === "RST" ? socket.resetAndDestroy() : socket.end());
    const pass = (side: Fault["side"], from: Socket, to: Socket) => {
      from.on("error", () => {}).on("close", () => to.end());
      from.on("data", (chunk) => {
        const rest = own?.side === side ? own.bytes - passed[side] : Infinity;
        passed[side] += chunk.length;
        if (rest > 0) to.write(chunk.subarray(0, rest));
        // What has passed arrives, unless a reset overtakes it.
        if (chunk.length >= rest) for (const socket of [client, service]) end(socket);
      });
    };
    for (const socket of [client, service]) sockets.add(socket);
    pass("request", client, service);
    pass("response", service, client);
    if (own?.side === "request" && own.bytes === 0) end(client);
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const baseURL = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const stop = () => {
    for (const socket of sockets) socket.destroy();
    server.close();
  };
  return { baseURL, passed, stop };
}

/** Adds a pet through a proxy, with the fault as its name. Returns the number of bytes that passed without a fault. */
async function create(apiKey: string, fault?: Fault) {
  const { baseURL, passed, stop } = await startProxy(fault);
  await new Petstore({ apiKey, baseURL }).pets.create({ name: nameOf(fault), categoryId: 1 }).finally(stop);
  return passed;
}

const nameOf = (fault?: Fault) => `broken by ${JSON.stringify(fault)}`;

it("a creation survives a lost connection, whenever that breaks, and adds one pet", async () => {
  const key = await newKey(databases.keys, 1_000_000);
  const whole = await create(key);
  // Some headers vary in length. After every second byte in turn, the connection is reset or ended.
  const faults = SIDES.flatMap((side) =>
    Array.from({ length: (whole[side] + 8) / 2 }, (_, index): Fault => {
      return { side, bytes: 2 * index, how: index % 2 === 0 ? "RST" : "FIN" };
    }),
  );
  const left = [...faults];
  const worker = async () => {
    for (let fault = left.pop(); fault; fault = left.pop()) await create(key, fault);
  };
  await Promise.all(Array.from({ length: 8 }, worker));
  const sql = "SELECT name FROM pets WHERE name LIKE 'broken by {%'";
  const { results } = await databases.pets.prepare(sql).all<{ name: string }>();
  expect(results.map(({ name }) => name).sort()).toEqual(faults.map(nameOf).sort());
});

it("100 calls at once with a new Free key: 60 are admitted, and none is refused", async () => {
  let minutes: Set<number>;
  // Again, if a minute ended in between.
  do {
    const free = { name: "a test", plan: "free", expiresAtMs: null } as const;
    const { secret: apiKey } = await createKey(databases.keys, free, { by: "a test", nowMs: Date.now() });
    minutes = new Set();
    const onResponse = ({ headers }: { headers: Headers }) => {
      minutes.add(Math.round(Number(headers.get(HEADER.rateLimitReset)) / 60));
    };
    const client = new Petstore({ apiKey, baseURL: origin, pace: true, onResponse });
    const controller = new AbortController();
    let answered = 0;
    const calls = Array.from({ length: 100 }, async () => {
      await client.pets.list({ limit: 1 }, { signal: controller.signal });
      answered += 1;
      if (answered === 60) controller.abort("enough");
    });
    const ends = await Promise.allSettled(calls);
    if (minutes.size > 1) continue;
    expect(ends.filter(({ status }) => status === "fulfilled")).toHaveLength(60);
    // Leases that were not used are released a moment later.
    const usage = async () => (await client.usage()).days.at(-1);
    await expect.poll(usage, { timeout: 10_000 }).toMatchObject({ admitted: 60, refused: 0 });
  } while (minutes.size > 1);
});
