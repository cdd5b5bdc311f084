// Sizes in bytes: of a pet, a key and an idempotency record in D1, of a key's object, and of an exchange. D1 and the object
// report their own sizes, in whole pages and with indexes. Sizes in D1 are means over many rows, including the gaps that the
// order of insertion leaves.

import { createConnection } from "node:net";
import { createKey } from "../../src/operators/admin.ts";
import { PET_STORAGE } from "../../src/pets/columns.ts";
import { progress, type Table, whole } from "../measure/report.ts";
import type { Databases } from "../measure/workerd.ts";
import { pagePath } from "./cursor.ts";
import { countsOf, startCountingPetstore } from "./objects.ts";
import { addTablesAndPets, NO_LIMIT, newKeyWithId } from "./pets.ts";

const ROWS = 100_000;

/** Ids begin after this one, as in a nearly full database, because larger ids take more bytes. */
const LAST_ID = 100_000_000;

/** A usual name of 20 characters, and one that takes the most bytes. */
const NAMES = { short: "A cat of twenty char", long: "🐈".repeat(255) };

/** More batches than a key's object remembers, so that its value is as long as it gets without leases. */
const BATCHES = 300;

export interface BytesResult {
  name: string;
  bytes: number;
  note: string;
}

/** AUTOINCREMENT continues after the largest id ever used. */
const SKIP_IDS = `INSERT INTO pets (id, name, category_id) VALUES (${LAST_ID}, 'skipped', 1)`;

/** Adds ?1 pets with the name ?2. A quarter of them have no status. */
const INSERT_PETS = `
  INSERT INTO pets (name, category_id, status)
  WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < CAST(?1 AS INTEGER))
  SELECT ?2, 1 + n % 50, CASE n % 4 WHEN 0 THEN 'available' WHEN 1 THEN 'pending' WHEN 2 THEN 'sold' END FROM numbers`;

/** Adds ?1 keys. Their ids and hashes are random, as real ones are. */
const INSERT_KEYS = `
  INSERT INTO keys (id, name, plan, hash, last_four, created_at_ms)
  WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < CAST(?1 AS INTEGER))
  SELECT 'key_' || substr(hex(randomblob(6)), 1, 12), ?2, 'pro', randomblob(32), 'abcd', 1795174620000 + n FROM numbers`;

/** Adds idempotency records of ?1 pets, for 1,000 API keys. Each `Idempotency-Key` has ?3 characters: random ones, then ?2. */
const INSERT_CREATIONS = `
  INSERT INTO creations (key_id, idempotency_key, request_hash, pet_id, pet_json, created_at_ms)
  SELECT printf('key_%012d', id % 1000), substr(hex(randomblob(8)) || ?2, 1, ?3), randomblob(32), id, ${PET_STORAGE.json},
    1795174620000 + id
  FROM pets ORDER BY id LIMIT CAST(?1 AS INTEGER)`;

export async function measureBytes(): Promise<BytesResult[]> {
  const { url, databases, stop } = await startCountingPetstore();
  const { pets, keys } = databases;
  try {
    await addTablesAndPets(databases, 0);
    await pets.batch([pets.prepare(SKIP_IDS), pets.prepare("DELETE FROM pets")]);
    const inD1 = await storedInD1(databases);
    return [...inD1, ...(await storedByObject(url, keys)), ...(await sent(url, databases))];
  } finally {
    await stop();
  }
}

/** Adds rows, measures by how much the database grows, and removes them. */
async function storedInD1({ pets, keys }: Databases): Promise<BytesResult[]> {
  const size = async (database: D1Database) => (await database.prepare("SELECT 1").run()).meta.size_after;
  const bytesPerRow = async (database: D1Database, sql: string, ...values: unknown[]) => {
    progress(`bytes: ${sql.trim().split("(")[0]?.trim()}`);
    const before = await size(database);
    const statement = database.prepare(sql).bind(`${ROWS}`, ...values);
    await statement.run();
    return ((await size(database)) - before) / ROWS;
  };
  const results: BytesResult[] = [
    { name: "an empty database of pets", bytes: await size(pets), note: "all tables" },
    { name: "an empty database of keys", bytes: await size(keys), note: "all tables" },
  ];
  for (const [title, name, keyLength] of [
    ["20 characters", NAMES.short, 36],
    ["255 of 4 bytes", NAMES.long, 255],
  ] as const) {
    const pet = await bytesPerRow(pets, INSERT_PETS, name);
    const creation = await bytesPerRow(pets, INSERT_CREATIONS, "-".repeat(255), keyLength);
    const before = await size(pets);
    await pets.prepare("DROP INDEX pets_by_status").run();
    const index = (before - (await size(pets))) / ROWS;
    await pets.prepare("CREATE INDEX pets_by_status ON pets (status)").run();
    results.push(
      { name: `a pet, name of ${title}`, bytes: pet, note: `${index.toFixed(1)} of them in the index` },
      { name: "its idempotency record", bytes: creation, note: `Idempotency-Key of ${keyLength} characters` },
    );
    await pets.batch(["creations", "pets"].map((table) => pets.prepare(`DELETE FROM ${table}`)));
  }
  const key = await bytesPerRow(keys, INSERT_KEYS, NAMES.short);
  return [...results, { name: "a key", bytes: key, note: "name of 20 characters" }];
}

/** What an object stores on the first day of its key. */
async function storedByObject(url: URL, keys: D1Database): Promise<BytesResult[]> {
  const { id } = await newKeyWithId(keys, NO_LIMIT);
  const stored = async () => (await countsOf(url, id)).bytes;
  const acquire = async () => (await fetch(new URL(`/acquire?key=${id}`, url))).text();
  const unused = await stored();
  await acquire();
  const first = await stored();
  for (let batch = 1; batch < BATCHES; batch += 1) await acquire();
  return [
    { name: "a key's object, unused", bytes: unused, note: "nothing stored" },
    { name: "the same, after one request", bytes: first, note: "one row" },
    { name: `the same, after ${BATCHES}`, bytes: await stored(), note: "the same row, at its longest" },
  ];
}

/** The bytes of minimal requests and their responses, heads included: HTTP/1.1 without compression. */
async function sent(url: URL, { pets, keys }: Databases): Promise<BytesResult[]> {
  const limits = { minute: 300, day: 10_000 };
  const options = { name: "bytes", plan: "pro", limits, expiresAtMs: null } as const;
  const { secret } = await createKey(keys, options, { by: "bench", nowMs: Date.now() });
  const exchange = async (title: string, name: string, line: string, body = "") => {
    const head = [
      `${line} HTTP/1.1`,
      // As long as a usual host, but a loopback one, because others need HTTPS.
      "Host: petstore-a.localhost",
      "Connection: close",
      `Authorization: Bearer ${secret}`,
    ];
    if (body !== "")
      head.push("Content-Type: application/json", `Content-Length: ${Buffer.byteLength(body)}`);
    const request = `${head.join("\r\n")}\r\n\r\n${body}`;
    const response = await exchangeBytes(url, request);
    const [responseHead = ""] = new TextDecoder("latin1").decode(response).split("\r\n\r\n");
    if (!/^HTTP\/1\.1 20[01]/.test(responseHead)) throw new Error(`bytes: ${line} got ${responseHead}`);
    const headBytes = responseHead.length + 4;
    return [
      { name: `${title}: request`, bytes: Buffer.byteLength(request), note: name },
      { name: `${title}: response`, bytes: response.length, note: `${headBytes} of them in the head` },
    ];
  };
  const results: BytesResult[] = [];
  for (const [title, name] of [
    ["name of 20 characters", NAMES.short],
    ["name of 255 of 4 bytes", NAMES.long],
  ] as const) {
    await pets.prepare("DELETE FROM pets").run();
    await pets.prepare(INSERT_PETS).bind("101", name).run();
    const firstId = (await pets.prepare("SELECT min(id) AS id FROM pets").first<number>("id")) ?? 0;
    const body = JSON.stringify({ name, categoryId: 7, status: "available" });
    results.push(
      ...(await exchange("a list of 20", title, `GET ${pagePath(firstId, 20)}`)),
      ...(await exchange("a list of 100", title, `GET ${pagePath(firstId, 100)}`)),
      ...(await exchange("a creation", title, "POST /v1/pets", body)),
    );
  }
  return results;
}

/** Sends a request as it is, and returns the bytes of the response. */
async function exchangeBytes(url: URL, request: string): Promise<Buffer> {
  const socket = createConnection({ host: url.hostname, port: Number(url.port) });
  socket.write(request);
  return Buffer.concat(await socket.toArray());
}

export function bytesTable(results: BytesResult[]): Table {
  return {
    title: `bytes: stored (mean of ${whole(ROWS)} rows), and sent by one exchange`,
    columns: ["", "bytes", ""],
    rows: results.map(({ name, bytes, note }) => [
      name,
      Number.isInteger(bytes) ? whole(bytes) : bytes.toFixed(1),
      note,
    ]),
  };
}
