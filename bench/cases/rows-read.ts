// How many rows D1 reads, and charges, for a page: the service's own statement, at several depths of 1,000,000 pets.

import { PET_STATUSES } from "../../src/pets/schema.ts";
import { selectPage } from "../../src/pets/store.ts";
import { type Table, verdict, whole } from "../measure/report.ts";
import { type FilledPetstore, LARGE } from "./large.ts";

const DEPTHS = [1, LARGE / 2, LARGE - 50];
const LIMITS = [1, 20, 100];

export interface RowsReadResult {
  firstId: number;
  limit: number;
  status: string | undefined;
  rowsRead: number;
  target: number;
  met: boolean;
}

/** Reads a page at each depth, with each limit, and with each status or none. */
export async function measureRowsRead({ databases }: FilledPetstore): Promise<RowsReadResult[]> {
  const results: RowsReadResult[] = [];
  for (const status of [undefined, ...PET_STATUSES]) {
    for (const firstId of DEPTHS) {
      for (const limit of LIMITS) {
        const { meta } = await selectPage(databases.pets, { limit, status, cursor: BigInt(firstId) }).all();
        const [rowsRead, target] = [meta.rows_read, limit + 1];
        results.push({ firstId, limit, status, rowsRead, target, met: rowsRead <= target });
      }
    }
  }
  return results;
}

export function rowsReadTable(results: RowsReadResult[]): Table {
  return {
    title: "rows-read: rows that D1 reads for a page of 1,000,000 pets",
    columns: ["status", "from pet", "limit", "rows read"],
    rows: results.map(({ firstId, limit, status = "any", rowsRead, target, met }) => {
      return [status, whole(firstId), `${limit}`, verdict(met, `${rowsRead}`, `at most ${target}`)];
    }),
  };
}
