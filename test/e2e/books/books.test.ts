// The second API, over sockets: what it needs of the limiter, it gets through the door. test/simulation/books.test.ts has lives of its keys.

import { readFileSync } from "node:fs";
import { setTimeout as wait } from "node:timers/promises";
import { expect, it, onTestFinished } from "vitest";
import { startWorkers, type WorkerSource } from "../../../bench/measure/workerd.ts";

const ISOLATE = {
  file: "test/e2e/books/counting.ts",
  object: { binding: "READERS", className: "ReaderKey", livesIn: 0 },
} satisfies WorkerSource;

/** Bob's, of ten seconds and of an hour, so that ten seconds which begin during a burst make no difference. */
const LIMIT = 300;
const HOUR_MS = 3_600_000;

it("is the example of the limiter's README", () => {
  const [, example] = readFileSync("src/limits/README.md", "utf8").match(/^```ts\n(.*?)^```$/ms) ?? [];
  expect(example).toBe(readFileSync("test/e2e/books/books.ts", "utf8"));
});

async function startBooks() {
  const { workers, stop } = await startWorkers([ISOLATE, ISOLATE, ISOLATE]);
  onTestFinished(stop);
  return (token: string, isolate = 0) =>
    fetch(new URL("/books", workers[isolate]?.url), { headers: { Authorization: `Bearer ${token}` } });
}

it("a burst of exactly the limit through three isolates is admitted, and the next request is refused", async () => {
  const read = await startBooks();
  // An hour that begins during the burst would admit more.
  const leftMs = HOUR_MS - (Date.now() % HOUR_MS);
  if (leftMs < 30_000) await wait(leftMs);
  const sent = Array.from({ length: LIMIT }, async (_, index) => {
    await wait(40 * Math.floor((10 * index) / LIMIT));
    return (await read("bob.x2", index % 3)).status;
  });
  expect(await Promise.all(sent)).toEqual(Array(LIMIT).fill(200));
  const refused = await read("bob.x2");
  expect([refused.status, await refused.json()]).toEqual([429, { error: "too many requests" }]);
  const names = ["X-RateLimit-Limit", "X-RateLimit-Remaining", "RateLimit-Policy"];
  expect(names.map((name) => refused.headers.get(name))).toEqual([
    ...["300", "0", '"burst";q=300;w=10, "hour";q=300;w=3600'],
  ]);
  expect(Number(refused.headers.get("Retry-After"))).toBeGreaterThan(10);
});

it("a cold request waits for one hop, and a hot one for none", async () => {
  const read = await startBooks();
  const hops: (string | null)[] = [];
  for (let request = 0; request < 40; request += 1) hops.push((await read("ada.x1")).headers.get("X-Hops"));
  expect(hops[0]).toBe("1");
  // By then there was a lease, of two requests at least.
  expect(hops.join("")).toMatch(/^[01]*00[01]*$/);
});

it("a reader without a valid key gets the answer of the books, and the limit of an address", async () => {
  const read = await startBooks();
  // The latter is a name that every object has.
  for (const token of ["ada.wrong", "constructor.x1"]) {
    const wrong = await read(token);
    expect([wrong.status, await wrong.json()]).toEqual([401, { error: "unknown key" }]);
    expect(wrong.headers.get("RateLimit-Policy")).toBe('"minute";q=60;w=60');
  }
});
