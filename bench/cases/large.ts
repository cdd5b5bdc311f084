// The service over a small database and over a large one, in one process, so that both share whatever it meets.

import { PETSTORE } from "../measure/implementations.ts";
import { progress } from "../measure/report.ts";
import { startWorkers } from "../measure/workerd.ts";
import { fillD1 } from "./pets.ts";

export const SMALL = 1_000;
export const LARGE = 1_000_000;

export interface FilledPetstore {
  url: URL;
  database: D1Database;
  secret: string;
}

/** Starts the service over 1,000 pets and over 1,000,000, and does `work` with both. */
export async function withLargeDatabase<Result>(
  work: (small: FilledPetstore, large: FilledPetstore) => Promise<Result>,
): Promise<Result> {
  const { workers, stop } = await startWorkers([PETSTORE, PETSTORE]);
  try {
    const [small, large] = workers;
    if (small === undefined || large === undefined)
      throw new Error("two Workers were started, and fewer run");
    progress(`filling a database with ${LARGE.toLocaleString("en")} pets`);
    const filled = async ({ url, database: open }: typeof small, pets: number): Promise<FilledPetstore> => {
      const database = await open();
      return { url, database, secret: await fillD1(database, pets) };
    };
    return await work(await filled(small, SMALL), await filled(large, LARGE));
  } finally {
    await stop();
  }
}
