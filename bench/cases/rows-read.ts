// How many rows the database says it has read for a page, which is what it is paid for: the service's own statement, at
// several depths of a list of 1,000,000 pets.

import { PET_STATUSES } from "../../src/pets/schema.ts";
import { selectPage } from "../../src/pets/store.ts";
import { type Table, verdict } from "../measure/report.ts";
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

/** Reads a page at each depth, with each limit and each status, or with any. */
export async function measureRowsRead({ database }: FilledPetstore): Promise<RowsReadResult[]> {
  const results: RowsReadResult[] = [];
  for (const status of [undefined, ...PET_STATUSES]) {
    for (const firstId of DEPTHS) {
      for (const limit of LIMITS) {
        const query = { limit, status, cursor: BigInt(firstId) };
        const { meta } = await selectPage(database, query).all();
        const target = limit + 1;
        results.push({
          firstId,
          limit,
          status,
          rowsRead: meta.rows_read,
          target,
          met: meta.rows_read <= target,
        });
      }
    }
  }
  return results;
}

/** The table of this section. */
export function rowsReadTable(results: RowsReadResult[]): Table {
  return {
    title: "rows-read: rows that D1 reads for a page of 1,000,000 pets",
    columns: ["status", "from pet", "limit", "rows read"],
    rows: results.map(({ firstId, limit, status = "any", rowsRead, target, met }) => {
      const measured = verdict(met, `${rowsRead}`, `at most ${target}`);
      return [status, firstId.toLocaleString("en"), `${limit}`, measured];
    }),
  };
}
