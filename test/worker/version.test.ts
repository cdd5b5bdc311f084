// Which build answers: told to whoever asks, whatever is the matter with the rest.

import { expect, it } from "vitest";
import { app } from "../../src/app.ts";
import { fetchWithoutKey, ORIGIN } from "../support/worker/client.ts";
import { takeLogLines } from "../support/worker/log-lines.ts";

it("says which interface and which build, to callers without a key too, as often as they like", async () => {
  const responses = await Promise.all(Array.from({ length: 70 }, () => fetchWithoutKey("/version")));
  expect(new Set(responses.map(({ status }) => status))).toEqual(new Set([200]));
  const [response] = responses;
  expect(await response?.json()).toEqual({ interface: "1.0.0", build: "development" });
  expect(response?.headers.get("Cache-Control")).toBe("no-store");
});

it("may be asked by pages of every origin, which may read the request id", async () => {
  const { headers } = await fetchWithoutKey("/version", { headers: { Origin: "https://status.example" } });
  expect(headers.get("Access-Control-Allow-Origin")).toBe("*");
  expect(headers.get("Access-Control-Expose-Headers")).toContain("X-Request-Id");
  const preflight = await fetchWithoutKey("/version", {
    method: "OPTIONS",
    headers: {
      Origin: "https://status.example",
      "Access-Control-Request-Method": "GET",
      "Access-Control-Request-Headers": "x-request-id",
    },
  });
  expect(preflight.status).toBe(204);
  expect(preflight.headers.get("Access-Control-Allow-Headers")).toBe("x-request-id");
});

it("answers though no other part is there", async () => {
  expect((await app.request(`${ORIGIN}/version`, {}, {})).status).toBe(200);
});

it("has a line in the log like any request, with the caller's id", async () => {
  await fetchWithoutKey("/version", { headers: { "X-Request-Id": "request-1" } });
  expect(takeLogLines()).toMatchObject([{ requestId: "request-1", route: "/version", status: 200 }]);
});
