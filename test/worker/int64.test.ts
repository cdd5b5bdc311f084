// 64-bit integers are exact in bodies, paths, cursors and storage.

import { env } from "cloudflare:workers";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { INT64_MAX, INT64_MIN, int64FromJsonNumber, parseInt64 } from "../../src/lib/int64.ts";
import { decodeCursor, encodeCursor } from "../../src/pets/cursor.ts";
import { invalidatePageCache, linkTo, newClient } from "../support/worker/client.ts";

const EDGES = [0n, 1n, -1n, 2n ** 53n - 1n, 2n ** 53n, 2n ** 53n + 1n, -(2n ** 53n) + 1n, -(2n ** 53n) - 1n];
const IN_RANGE = [...EDGES, INT64_MAX - 1n, INT64_MAX, INT64_MIN + 1n, INT64_MIN];
const OUT_OF_RANGE = [INT64_MAX + 1n, INT64_MIN - 1n, 10n ** 19n, 10n ** 400n, -(10n ** 400n)];

const anyInt64 = fc.bigInt({ min: INT64_MIN, max: INT64_MAX });

describe("parseInt64", () => {
  it("parses the decimal digits of every int64", () => {
    fc.assert(fc.property(anyInt64, (value) => parseInt64(`${value}`) === value));
    for (const value of IN_RANGE) expect(parseInt64(`${value}`)).toBe(value);
  });

  it.each([
    ...OUT_OF_RANGE.map(String),
    "",
    "-",
    "+1",
    "01",
    "-0",
    "1.0",
    "1e3",
    "0x10",
    " 1",
    "1 ",
    "１",
    "1_0",
  ])("rejects %j", (text) => {
    expect(parseInt64(text)).toBeUndefined();
  });
});

describe("int64FromJsonNumber", () => {
  it.each([
    ["1.0", 1n],
    ["1e3", 1000n],
    ["1E+3", 1000n],
    ["10e-1", 1n],
    ["-0", 0n],
    ["-0.0e5", 0n],
    ["0e999999999999", 0n],
    ["0.001e3", 1n],
    ["9223372036854775807.000", INT64_MAX],
    ["-922337203685477580.8e1", INT64_MIN],
    ["9007199254740993", 9007199254740993n],
    [`1${"0".repeat(60_000)}e-60000`, 1n],
  ])("accepts %s", (source, value) => {
    expect(int64FromJsonNumber(source)).toBe(value);
  });

  it.each([
    "1.5",
    "1e-1",
    "0.1",
    "9223372036854775807.1",
    "1e19",
    "1e999999999999",
    "1e-999999999999",
    "123456789012345678.5",
    ...OUT_OF_RANGE.map(String),
  ])("rejects %s", (source) => {
    expect(int64FromJsonNumber(source)).toBeUndefined();
  });

  it("agrees with exact arithmetic in every notation", () => {
    const parts = fc.tuple(
      fc.bigInt({ min: 0n, max: 10n ** 22n }),
      fc.integer({ min: 0, max: 8 }),
      fc.boolean(),
    );
    fc.assert(
      fc.property(parts, fc.integer({ min: -8, max: 8 }), ([digits, decimals, negative], exponent) => {
        const text = `${digits}`.padStart(decimals + 1, "0");
        const point = text.length - decimals;
        const mantissa = decimals > 0 ? `${text.slice(0, point)}.${text.slice(point)}` : text;
        const source = `${negative ? "-" : ""}${mantissa}e${exponent}`;

        const signed = negative ? -digits : digits;
        const power = BigInt(exponent - decimals);
        const divisor = power < 0n ? 10n ** -power : 1n;
        const exact = power < 0n ? signed / divisor : signed * 10n ** power;
        const isInt64 = signed % divisor === 0n && exact >= INT64_MIN && exact <= INT64_MAX;
        expect(int64FromJsonNumber(source)).toBe(isInt64 ? exact : undefined);
      }),
      { numRuns: 1_000 },
    );
  });
});

it("a cursor round-trips every int64", () => {
  fc.assert(fc.property(anyInt64, (id) => decodeCursor(encodeCursor(id)) === id));
  for (const id of IN_RANGE) expect(decodeCursor(encodeCursor(id))).toBe(id);
});

describe("the service", () => {
  it.each(IN_RANGE)("stores and returns a categoryId of %s", async (categoryId) => {
    const client = await newClient();
    const created = await client.post(`{"name":"Rex","categoryId":${categoryId}}`);
    expect(created.status).toBe(201);
    const text = await created.text();
    expect(text).toContain(`"categoryId":${categoryId}}`);
    const location = created.headers.get("Location") ?? "";
    expect(await (await client.get(location)).text()).toBe(text);
    expect(await (await client.get("/v1/pets?limit=100")).text()).toContain(text);
  });
});

describe("with ids at the edges of int64", () => {
  const ids = IN_RANGE.toSorted((a, b) => (a < b ? -1 : 1));

  beforeEach(async () => {
    invalidatePageCache();
    await env.DB.exec("DELETE FROM pets");
    const insert = env.DB.prepare(
      "INSERT INTO pets (id, name, category_id, status) VALUES (?1, 'Rex', ?1, 'sold')",
    );
    await env.DB.batch(ids.map((id) => insert.bind(`${id}`)));
  });

  afterEach(async () => {
    // After the largest id SQLite can assign no other, so the sequence is reset.
    invalidatePageCache();
    await env.DB.exec("DELETE FROM pets");
    await env.DB.exec("UPDATE sqlite_sequence SET seq = 0 WHERE name = 'pets'");
  });

  it("each pet is found by its path", async () => {
    const client = await newClient();
    for (const id of ids) {
      const response = await client.get(`/v1/pets/${id}`);
      expect(await response.text()).toBe(`{"id":${id},"name":"Rex","categoryId":${id},"status":"sold"}`);
    }
  });

  it("a POST returns the exact id of a pet above 2^53", async () => {
    invalidatePageCache();
    await env.DB.exec("DELETE FROM pets");
    await env.DB.exec("UPDATE sqlite_sequence SET seq = 9007199254740992 WHERE name = 'pets'");
    const client = await newClient();
    const response = await client.post(`{"name":"Rex","categoryId":1}`);
    expect(response.headers.get("Location")).toBe("/v1/pets/9007199254740993");
    expect(await response.text()).toBe(`{"id":9007199254740993,"name":"Rex","categoryId":1}`);
  });

  it.each(["", "&status=sold"])("a walk in pages of one%s returns all ids in order", async (filter) => {
    const client = await newClient();
    const met: string[] = [];
    for (let path: string | undefined = `/v1/pets?limit=1${filter}`; path !== undefined; ) {
      const response: Response = await client.get(path);
      met.push((await response.text()).match(/^\[\{"id":(-?\d+),/)?.[1] ?? "");
      path = linkTo("next", response);
    }
    // Sorted as text or as doubles, the order or the set would differ.
    expect(met).toEqual(ids.map(String));
  });
});
