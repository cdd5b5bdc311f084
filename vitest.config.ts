// Two projects: `worker` runs inside workerd, on real D1 and real Durable Objects; `outside` runs in Node and
// uses the service as a newcomer does, over a socket.

import { cloudflareTest, readD1Migrations } from "@cloudflare/vitest-plugin";
import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    reporters: ["default", "./test/closing-line.ts"],
    sequence: { shuffle: true },
    projects: [
      {
        plugins: [
          cloudflareTest(async () => ({
            wrangler: { configPath: "./wrangler.toml" },
            miniflare: { bindings: { TEST_MIGRATIONS: await readD1Migrations("migrations") } },
          })),
        ],
        test: {
          name: "worker",
          include: ["test/**/*.test.ts"],
          exclude: ["test/outside/**"],
          setupFiles: ["./test/setup.ts"],
        },
      },
      {
        test: { name: "outside", include: ["test/outside/**/*.test.ts"] },
      },
    ],
  },
});
