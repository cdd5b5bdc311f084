// The service with a small and with a large database, in one process, so that other load on the machine affects both.

import { PETSTORE } from "../measure/implementations.ts";
import { progress, whole } from "../measure/report.ts";
import { type Databases, type RunningWorker, startWorkers } from "../measure/workerd.ts";
import { fillD1 } from "./pets.ts";

export const SMALL = 1_000;
export const LARGE = 1_000_000;

export interface FilledPetstore {
  url: URL;
  databases: Databases;
  secret: string;
}

/** Starts the service with 1,000 pets and with 1,000,000, and passes both to `work`. */
export async function withLargeDatabase<Result>(
  work: (small: FilledPetstore, large: FilledPetstore) => Promise<Result>,
): Promise<Result> {
  const { workers, stop } = await startWorkers([PETSTORE, PETSTORE]);
  const fill = async (worker: RunningWorker, pets: number): Promise<FilledPetstore> => {
    const databases = await worker.databases();
    return { url: worker.url, databases, secret: await fillD1(databases, pets) };
  };
  try {
    progress(`filling a database with ${whole(LARGE)} pets`);
    return await work(await fill(workers[0], SMALL), await fill(workers[1], LARGE));
  } finally {
    await stop();
  }
}
