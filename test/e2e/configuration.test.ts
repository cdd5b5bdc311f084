// wrangler.toml: previews have all bindings of production, nothing in it belongs to an account, and wrangler accepts it.

import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { experimental_readRawConfig } from "wrangler";
import { QUIET, WRANGLER } from "../../scripts/cloudflare/wrangler.ts";
import { runScript } from "../support/e2e/petstore.ts";

type Settings = Record<string, unknown>;

const { rawConfig } = experimental_readRawConfig({ config: "wrangler.toml" }) as unknown as {
  rawConfig: Settings & { previews: Settings };
};
const { previews, ...production } = rawConfig;

/** Settings that a preview inherits or can't have. All other top-level settings are kinds of bindings. */
const NOT_BINDINGS =
  "name main compatibility_date keep_names send_metrics route routes preview_urls assets build placement exports triggers observability";

const kinds = Object.keys(production).filter((kind) => !NOT_BINDINGS.split(" ").includes(kind));

/** The bindings of one kind, by name. Kinds differ in how wrangler.toml lists them. */
function bindings(settings: Settings, kind: string): Record<string, Settings> {
  const found = settings[kind];
  if (found === undefined) return {};
  if (!Array.isArray(found) && kind !== "durable_objects") return found as Record<string, Settings>;
  const list = (Array.isArray(found) ? found : (found as { bindings: Settings[] }).bindings) as Settings[];
  return Object.fromEntries(list.map((each) => [`${each.binding ?? each.name}`, each]));
}

it("previews have every binding of production, but databases and Durable Objects of their own", () => {
  expect(kinds).toEqual(expect.arrayContaining(["d1_databases", "durable_objects"]));
  const names = (settings: Settings) => kinds.map((kind) => [kind, Object.keys(bindings(settings, kind))]);
  expect(names(previews)).toEqual(names(production));
  const databases = [production, previews].flatMap((settings) =>
    Object.values(bindings(settings, "d1_databases")).map(({ database_name }) => database_name),
  );
  expect(databases).not.toContain(undefined);
  expect(new Set(databases).size).toBe(databases.length);
  const objects = bindings(previews, "durable_objects");
  expect(objects).toEqual(bindings(production, "durable_objects"));
  for (const { class_name, script_name } of Object.values(objects)) {
    expect(production.exports).toHaveProperty(`${class_name}`);
    expect(script_name).toBeUndefined();
  }
});

it("previews log like production: every line of the Worker, and no query strings", () => {
  expect(previews.observability).toEqual(production.observability);
  expect(production.observability).toMatchObject({
    enabled: true,
    redact_query_string: true,
    logs: { enabled: true, head_sampling_rate: 1, invocation_logs: false },
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
  const names = kinds.flatMap((kind) => Object.keys(bindings(production, kind)));
  for (const name of names) expect(stdout).toContain(`env.${name} `);
  expect(existsSync(join(folder, "index.js"))).toBe(true);
});
