// How many bytes things take: what D1 stores of a pet, a key and a remembered creation, what a key's object stores, and what
// an exchange sends. Stored bytes are what D1 and the object say themselves (whole pages, indexes included), divided by the
// rows, so they have the gaps that come from the order in which rows arrive.

import { createConnection } from "node:net";
import { createKey } from "../../src/keys/admin.ts";
import { PET_JSON } from "../../src/pets/store.ts";
import { progress, type Table, whole } from "../measure/report.ts";
import { pagePath } from "./cursor.ts";
import { startCountingPetstore } from "./objects.ts";
import { addTablesAndPets } from "./pets.ts";

const ROWS = 100_000;

/** The id before the first: as in a database that is nearly full, because larger ids take more bytes. */
const LAST_ID = 100_000_000;

/** A usual one of 20 characters, and the one that takes the most bytes. */
const NAMES = { short: "A cat of twenty char", long: "🐈".repeat(255) };

/** More batches than a key's object remembers, so that its value is as long as it gets without leases. */
const BATCHES = 300;

export interface BytesResult {
  name: string;
  bytes: number;
  note: string;
}

/** AUTOINCREMENT goes on from the largest id that there ever was. */
const SKIP_IDS = `INSERT INTO pets (id, name, category_id) VALUES (${LAST_ID}, 'skipped', 1)`;

/** ?1 rows, of which each has the name ?2. A quarter of them have no status. */
const INSERT_PETS = `
  INSERT INTO pets (name, category_id, status)
  WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < CAST(?1 AS INTEGER))
  SELECT ?2, 1 + n % 50, CASE n % 4 WHEN 0 THEN 'available' WHEN 1 THEN 'pending' WHEN 2 THEN 'sold' END FROM numbers`;

/** As many keys, with random ids and hashes, because that is the order in which real ones arrive. */
const INSERT_KEYS = `
  INSERT INTO keys (id, name, plan, hash, last_four, created_at_ms)
  WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < CAST(?1 AS INTEGER))
  SELECT 'key_' || substr(hex(randomblob(6)), 1, 12), ?2, 'pro', randomblob(32), 'abcd', 1795174620000 + n FROM numbers`;

/** As many creations of the pets that are there, by 1,000 keys, named ?2 and a random number in front. */
const INSERT_CREATIONS = `
  INSERT INTO creations (key_id, idempotency_key, request_hash, pet_id, pet_json, created_at_ms)
  SELECT printf('key_%012d', id % 1000), substr(hex(randomblob(8)) || ?2, 1, ?3), randomblob(32), id, ${PET_JSON},
    1795174620000 + id
  FROM pets ORDER BY id LIMIT CAST(?1 AS INTEGER)`;

/** Measures all of it, in a database and with objects of its own. */
export async function measureBytes(): Promise<BytesResult[]> {
  const { url, database, stop } = await startCountingPetstore();
  try {
    await addTablesAndPets(database, 0);
    await database.batch([database.prepare(SKIP_IDS), database.prepare("DELETE FROM pets")]);
    return [...(await storedInD1(database)), ...(await storedByObject(url)), ...(await sent(url, database))];
  } finally {
    await stop();
  }
}

/** Adds rows, says what each has added, and removes them. */
async function storedInD1(database: D1Database): Promise<BytesResult[]> {
  const size = async () => (await database.prepare("SELECT 1").run()).meta.size_after;
  const emptyBytes = await size();
  const grown = async (sql: string, ...values: unknown[]) => {
    progress(`bytes: ${sql.trim().split("(")[0]?.trim()}`);
    const before = await size();
    await database
      .prepare(sql)
      .bind(`${ROWS}`, ...values)
      .run();
    return ((await size()) - before) / ROWS;
  };
  const results: BytesResult[] = [{ name: "an empty database", bytes: emptyBytes, note: "all tables" }];
  for (const [title, name, keyLength] of [
    ["20 characters", NAMES.short, 36],
    ["255 of 4 bytes", NAMES.long, 255],
  ] as const) {
    const pet = await grown(INSERT_PETS, name);
    const creation = await grown(INSERT_CREATIONS, "-".repeat(255), keyLength);
    const before = await size();
    await database.prepare("DROP INDEX pets_by_status").run();
    const index = (before - (await size())) / ROWS;
    await database.prepare("CREATE INDEX pets_by_status ON pets (status)").run();
    results.push(
      { name: `a pet, name of ${title}`, bytes: pet, note: `of them ${index.toFixed(1)} in the index` },
      { name: `a creation of it`, bytes: creation, note: `Idempotency-Key of ${keyLength} characters` },
    );
    await database.batch(["creations", "pets"].map((table) => database.prepare(`DELETE FROM ${table}`)));
  }
  results.push({
    name: "a key",
    bytes: await grown(INSERT_KEYS, NAMES.short),
    note: "name of 20 characters",
  });
  return results;
}

/** What an object stores on the first day of its key. */
async function storedByObject(url: URL): Promise<BytesResult[]> {
  const stored = async () => {
    const response = await fetch(new URL("/counts?key=bytes", url));
    return ((await response.json()) as { bytes: number }).bytes;
  };
  const acquire = async () => (await fetch(new URL("/acquire?key=bytes", url))).text();
  const unused = await stored();
  await acquire();
  const first = await stored();
  for (let batch = 1; batch < BATCHES; batch += 1) await acquire();
  return [
    { name: "a key's object, unused", bytes: unused, note: "asked, and nothing stored" },
    { name: "the same, after one request", bytes: first, note: "one row" },
    { name: `the same, after ${BATCHES}`, bytes: await stored(), note: "the same row, as long as it gets" },
  ];
}

/** What the shortest requests and their answers send, heads included, of HTTP/1.1 without compression. */
async function sent(url: URL, database: D1Database): Promise<BytesResult[]> {
  const newOne = {
    name: "bytes",
    plan: "pro",
    limits: { minute: 300, day: 10_000 },
    expiresAtMs: null,
  } as const;
  const { secret } = await createKey(database, newOne, Date.now());
  const exchange = async (title: string, name: string, line: string, body = "") => {
    const head = [
      `${line} HTTP/1.1`,
      // A loopback host, because others are refused over plain HTTP; as long as a usual one.
      "Host: petstore-a.localhost",
      "Connection: close",
      `Authorization: Bearer ${secret}`,
      ...(body === ""
        ? []
        : ["Content-Type: application/json", `Content-Length: ${Buffer.byteLength(body)}`]),
    ];
    const request = `${head.join("\r\n")}\r\n\r\n${body}`;
    const answer = await answerTo(url, request);
    const [answerHead = ""] = new TextDecoder("latin1").decode(answer).split("\r\n\r\n");
    if (!/^HTTP\/1\.1 20[01]/.test(answerHead))
      throw new Error(`bytes: ${line} was answered with ${answerHead}`);
    const headBytes = answerHead.length + 4;
    return [
      { name: `${title}: request`, bytes: Buffer.byteLength(request), note: name },
      { name: `${title}: answer`, bytes: answer.length, note: `of them ${headBytes} in the head` },
    ];
  };
  const results: BytesResult[] = [];
  for (const [title, name] of [
    ["name of 20 characters", NAMES.short],
    ["name of 255 of 4 bytes", NAMES.long],
  ] as const) {
    await database.prepare("DELETE FROM pets").run();
    await database.prepare(INSERT_PETS).bind("101", name).run();
    const first = await database.prepare("SELECT min(id) AS id FROM pets").first<{ id: number }>();
    const firstId = first?.id ?? 0;
    const body = JSON.stringify({ name, categoryId: 7, status: "available" });
    results.push(
      ...(await exchange("a list of 20", title, `GET ${pagePath(firstId, 20)}`)),
      ...(await exchange("a list of 100", title, `GET ${pagePath(firstId, 100)}`)),
      ...(await exchange("a creation", title, "POST /v1/pets", body)),
    );
  }
  return results;
}

function answerTo(url: URL, request: string): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    const socket = createConnection({ host: url.hostname, port: Number(url.port) }, () =>
      socket.write(request),
    );
    socket.on("data", (chunk) => chunks.push(chunk));
    socket.on("end", () => resolve(Buffer.concat(chunks)));
    socket.on("error", reject);
  });
}

/** The table of this section. */
export function bytesTable(results: BytesResult[]): Table {
  return {
    title: `bytes: of what is stored, the mean of ${whole(ROWS)} rows; of what is sent, one exchange`,
    columns: ["", "bytes", ""],
    rows: results.map(({ name, bytes, note }) => [
      name,
      Number.isInteger(bytes) ? whole(bytes) : bytes.toFixed(1),
      note,
    ]),
  };
}
