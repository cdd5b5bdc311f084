// An account that the commands of a test file work in, until its last test has ended.

import { afterAll, beforeAll, vi } from "vitest";
import { databaseOf, idOf, startCloudflareApi } from "./cloudflare-api.ts";
import { DATABASES, startWorkersAccount } from "./workers-account.ts";

/** `names` are those of its databases, which have no tables yet. */
export async function useAccount(names = DATABASES) {
  const account = await startWorkersAccount();
  const api = await startCloudflareApi(account, names);
  beforeAll(() => {
    for (const [name, value] of Object.entries(api.environment)) vi.stubEnv(name, value);
  });
  afterAll(async () => {
    api.stop();
    await account.stop();
  });
  return {
    api,
    databaseOf: (name: string) => databaseOf(account, name),
    timeTravelOf: (name: string) => account.timeTravel[idOf(name)] as (typeof account.timeTravel)[string],
  };
}
