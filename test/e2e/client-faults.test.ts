// The client against the service, through a proxy that breaks connections, and at a limit that it must not exceed.

import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { afterAll, beforeAll, beforeEach, expect, it, vi } from "vitest";
import { addTablesAndPets } from "../../bench/cases/pets.ts";
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
  service = await startWorkers([PETSTORE]);
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

async function newKey(plan: "free" | "enterprise"): Promise<string> {
  const limits = plan === "enterprise" ? { minute: 100_000, day: 1_000_000 } : undefined;
  const key = { name: "a test", plan, expiresAtMs: null, ...(limits && { limits }) };
  return (await createKey(databases.keys, key, { by: "a test", nowMs: Date.now() })).secret;
}

type Side = "request" | "response";
interface Fault {
  side: Side;
  /** How many bytes pass before the fault. */
  bytes: number;
  /** Reset, end, or leave open without another byte. */
  how: "RST" | "FIN" | "hang";
  /** How many connections have the fault. */
  connections: number;
}

/** A proxy of the service, and how many bytes of each side its last connection has passed. */
async function startProxy({ side, bytes, how, connections }: Fault) {
  const sockets = new Set<Socket>();
  const passed = { request: 0, response: 0 };
  let accepted = 0;
  const server = createServer((client) => {
    const service = connect(Number(origin.port), "127.0.0.1");
    const isFaulty = ++accepted <= connections;
    Object.assign(passed, { request: 0, response: 0 });
    const end = (socket: Socket) => (how === "RST" ? socket.resetAndDestroy() : socket.end());
    const pass = (name: Side, from: Socket, to: Socket) => {
      from.on("error", () => {}).on("close", () => how !== "hang" && to.end());
      from.on("data", (chunk) => {
        const left = isFaulty && name === side ? bytes - passed[name] : Infinity;
        passed[name] += chunk.length;
        if (left > 0) to.write(chunk.subarray(0, left));
        if (chunk.length < left || how === "hang") return;
        // What has passed arrives, unless a reset overtakes it.
        for (const socket of [client, service]) end(socket);
      });
    };
    for (const socket of [client, service]) sockets.add(socket);
    pass("request", client, service);
    pass("response", service, client);
    if (isFaulty && bytes === 0 && side === "request" && how !== "hang") end(client);
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const stop = () => {
    for (const socket of sockets) socket.destroy();
    server.close();
  };
  return { baseURL: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, passed, stop };
}

/** Adds a pet through a proxy with a fault. */
async function create(apiKey: string, fault: Fault, options = {}) {
  const { baseURL, passed, stop } = await startProxy(fault);
  const name = Object.values(fault).join();
  try {
    await new Petstore({ apiKey, baseURL, ...options }).pets.create({ name, categoryId: 1 });
    return { name, passed };
  } finally {
    stop();
  }
}

it.each(["RST", "FIN"] as const)(
  "a creation survives a %s after every byte, and adds one pet",
  async (how) => {
    const key = await newKey("enterprise");
    const { passed } = await create(key, { side: "request", bytes: 0, how, connections: 0 });
    // Some headers vary in length.
    const faults = (["request", "response"] as const).flatMap((side) =>
      Array.from({ length: passed[side] + 8 }, (_, bytes): Fault => ({ side, bytes, how, connections: 1 })),
    );
    const left = [...faults];
    const names: string[] = [];
    const worker = async () => {
      for (let fault = left.pop(); fault; fault = left.pop()) names.push((await create(key, fault)).name);
    };
    await Promise.all(Array.from({ length: 8 }, worker));
    const { results } = await databases.pets
      .prepare("SELECT name FROM pets WHERE name LIKE ?")
      .bind(`%,${how},1`)
      .all<{ name: string }>();
    expect(results.map(({ name }) => name).sort()).toEqual(names.sort());
    expect(names).toHaveLength(faults.length);
  },
);

it.each([0, 1, 300])(
  "a service that sends %i bytes and then nothing ends the call by its timeouts",
  async (bytes) => {
    const key = await newKey("enterprise");
    const fault: Fault = { side: "response", bytes, how: "hang", connections: Infinity };
    const ended = { name: "TimeoutError", attempts: 2, idempotencyKey: expect.any(String) };
    const options = { timeoutMs: 100, maxRetries: 1 };
    await expect(create(key, fault, options)).rejects.toMatchObject(ended);
  },
);

it("100 calls at once with a new Free key: 60 are admitted, and none is refused", async () => {
  let minutes: Set<number>;
  // Again, if a minute ended in between.
  do {
    const key = await newKey("free");
    minutes = new Set();
    const onResponse = ({ headers }: { headers: Headers }) => {
      minutes.add(Math.round(Number(headers.get(HEADER.rateLimitReset)) / 60));
    };
    const client = new Petstore({ apiKey: key, baseURL: origin, pace: true, onResponse });
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
