// An account that the commands of a test file work in, until its last test has ended. Its databases are D1, unless the file takes SQLite
// in memory, which answers in a tenth of the time: files that are about many calls do, beside one test on D1.

import { afterAll, beforeAll, vi } from "vitest";
import { type Account, DATABASES, databaseOf, startCloudflareApi } from "./cloudflare-api.ts";
import { startWorkersAccount } from "./workers-account.ts";

/** `names` are those of its databases, which have no tables yet. */
export async function useAccount(names = DATABASES, given?: Account) {
  const account: Account = given ?? (await startWorkersAccount());
  const api = await startCloudflareApi(account, names);
  beforeAll(() => {
    for (const [name, value] of Object.entries(api.environment)) vi.stubEnv(name, value);
  });
  afterAll(async () => {
    api.stop();
    await account.stop?.();
  });
  const { timeTravelOf } = api;
  return { api, databaseOf: (name: string) => databaseOf(account, name), timeTravelOf };
}
