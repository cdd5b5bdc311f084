// The client against the service, through a proxy that breaks connections.

import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { expect, it, onTestFinished, vi } from "vitest";
import { addTablesAndPets, NO_LIMIT, newKey } from "../../bench/cases/pets.ts";
import { PETSTORE } from "../../bench/measure/implementations.ts";
import { startWorkers } from "../../bench/measure/workerd.ts";
import { Petstore } from "../../client/src/index.ts";

/** How a connection breaks: once so many bytes of request and response have passed. */
interface Fault {
  bytes: number;
  how: "RST" | "FIN";
}

/** A proxy whose first connection breaks. `passed`: how many bytes have passed. */
async function startProxy(port: number, fault?: Fault) {
  const sockets = new Set<Socket>();
  const proxy = { baseURL: "", passed: 0, stop };
  const server = createServer((client) => {
    const service = connect(port, "127.0.0.1");
    let left = sockets.size === 0 && fault ? fault.bytes : Number.POSITIVE_INFINITY;
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
  // Without wrangler's proxy, which logs each lost connection.
  const { workers, stop } = await startWorkers([PETSTORE], true);
  onTestFinished(stop);
  const databases = await workers[0].databases();
  await addTablesAndPets(databases, 0);
  const apiKey = await newKey(databases.keys, NO_LIMIT);
  // No waits between retries.
  vi.spyOn(Math, "random").mockReturnValue(0);
  onTestFinished(() => void vi.restoreAllMocks());

  /** Adds a pet through a proxy, with the fault as its name. Returns how many bytes have passed. */
  const create = async (fault?: Fault) => {
    const proxy = await startProxy(Number(workers[0].url.port), fault);
    const { pets } = new Petstore({ apiKey, baseURL: proxy.baseURL });
    const sent = { name: JSON.stringify(fault ?? "none"), categoryId: 1n };
    expect(await pets.create(sent).finally(proxy.stop)).toMatchObject(sent);
    return proxy.passed;
  };
  // Some headers vary in length. After every second byte in turn, the connection is reset or ended.
  const faults = Array.from({ length: ((await create()) + 16) / 2 }, (_, index): Fault => {
    return { bytes: 2 * index, how: index % 2 === 0 ? "RST" : "FIN" };
  });
  const left = [...faults];
  const worker = async () => {
    for (let fault = left.pop(); fault; fault = left.pop()) await create(fault);
  };
  await Promise.all(Array.from({ length: 8 }, worker));
  const { results } = await databases.pets.prepare("SELECT name FROM pets").all<{ name: string }>();
  const names = [...faults, "none"].map((fault) => JSON.stringify(fault));
  expect(results.map(({ name }) => name).sort()).toEqual(names.sort());
});
