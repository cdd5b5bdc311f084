// wrangler.toml: previews have all bindings of production, nothing in it belongs to an account, and wrangler accepts it.

import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { experimental_readRawConfig } from "wrangler";
import { QUIET, WRANGLER } from "../../scripts/cloudflare/wrangler.ts";
import { runScript } from "../support/e2e/petstore.ts";

type Settings = Record<string, object>;

const { rawConfig } = experimental_readRawConfig({ config: "wrangler.toml" }) as unknown as {
  rawConfig: Settings & { previews: Settings };
};
const { previews, ...production } = rawConfig;

/** Settings that a preview inherits or can't have. It needs all others, which are kinds of bindings, and the log. */
const NOT_IN_PREVIEWS =
  "name main compatibility_date keep_names send_metrics route routes preview_urls assets build placement exports triggers";

it("previews have every binding of production, but databases of their own", () => {
  const needed = Object.entries(production).filter(([kind]) => !NOT_IN_PREVIEWS.split(" ").includes(kind));
  // A preview can't have a code update strategy.
  const durableObjects = { ...production.durable_objects, code_update_strategy: undefined };
  const settings = JSON.stringify({ ...Object.fromEntries(needed), durable_objects: durableObjects });
  const own = settings.replaceAll(`"database_name":"petstore-`, `"database_name":"petstore-previews-`);
  expect(previews).toEqual(JSON.parse(own));
  expect(settings).not.toMatch(/"database_name":"(?!petstore-)|"script_name"/);
});

it("every line of the Worker is logged, few requests are traced, and no query strings are kept", () => {
  expect(production.observability).toMatchObject({
    enabled: true,
    redact_query_string: true,
    logs: { enabled: true, head_sampling_rate: 1, invocation_logs: false },
    traces: { enabled: true, head_sampling_rate: 0.01 },
  });
});

it("wrangler.toml has no account id and no secret, and lets routes take the Worker off workers.dev", () => {
  // Cloudflare's ids and secrets are longer than any name in the file.
  expect(JSON.stringify(rawConfig).match(/[0-9A-Za-z_-]{24,}/g)).toBeNull();
  expect(rawConfig).not.toHaveProperty("account_id");
  expect(rawConfig).not.toHaveProperty("workers_dev");
});

it("wrangler builds a deployment from it without a warning", async () => {
  const folder = await mkdtemp(join(tmpdir(), "petstore-test-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const words = ["deploy", "--dry-run", "--outdir", folder];
  const { exitCode, stdout, stderr } = await runScript(WRANGLER, words, { ...QUIET, WRANGLER_LOG: "log" });
  expect([exitCode, stderr]).toEqual([0, ""]);
  expect(stdout).not.toMatch(/warning|unexpected/i);
  for (const name of ["PETS_DB", "KEYS_DB", "API_KEYS"]) expect(stdout).toContain(`env.${name} `);
  expect(existsSync(join(folder, "index.js"))).toBe(true);
});
