// GET /version: the build that answers, without a key and without any binding.

import { expect, it } from "vitest";
import { app } from "../../src/app.ts";
import { fetchWithoutKey, ORIGIN } from "../support/worker/client.ts";
import { takeLogLines } from "../support/worker/log-lines.ts";

it("returns the versions of interface and build, without a key or a rate limit", async () => {
  const responses = await Promise.all(Array.from({ length: 70 }, () => fetchWithoutKey("/version")));
  expect(new Set(responses.map(({ status }) => status))).toEqual(new Set([200]));
  const [response] = responses;
  expect(await response?.json()).toEqual({ interface: "1.0.0", build: "development" });
  expect(response?.headers.get("Cache-Control")).toBe("no-store");
});

it("allows every origin to read it and the request ID", async () => {
  const { headers } = await fetchWithoutKey("/version", { headers: { Origin: "https://status.example" } });
  expect(headers.get("Access-Control-Allow-Origin")).toBe("*");
  expect(headers.get("Access-Control-Expose-Headers")).toBe("*");
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

it("needs no bindings", async () => {
  expect((await app.request(`${ORIGIN}/version`, {}, {})).status).toBe(200);
});

it("is logged with the client's request ID", async () => {
  await fetchWithoutKey("/version", { headers: { "X-Request-Id": "request-1" } });
  expect(takeLogLines()).toMatchObject([{ requestId: "request-1", route: "/version", status: 200 }]);
});
