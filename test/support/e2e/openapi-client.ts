// @ts-nocheck
// A client with types generated from the published document. A test generates the types, and compiles a copy of this file
// beside them, without the first line. It never runs.

import createClient from "openapi-fetch";
import type { components, paths } from "./document.ts";

const client = createClient<paths>({ baseUrl: "" });

const { data, error } = await client.POST("/pets", { body: { name: "Zoë", categoryId: 2, status: "sold" } });
if (error) throw new Error(error.message);
const pet: components["schemas"]["Pet"] = data;
const listed = await client.GET("/pets", { params: { query: { limit: 1, status: "sold" } } });
listed.data?.push(pet);
const found = await client.GET("/pets/{petId}", { params: { path: { petId: pet.id } } });
if (found.error?.status === 404) found.error.code satisfies "not_found";

// @ts-expect-error: unknown status
await client.GET("/pets", { params: { query: { status: "lost" } } });
// @ts-expect-error: categoryId is required
await client.POST("/pets", { body: { name: "Rex" } });
// @ts-expect-error: unknown field
pet.colour;
// @ts-expect-error: status is optional
pet.status.length;
// @ts-expect-error: a list has no 404
if (listed.error?.code === "not_found") listed.response;
// @ts-expect-error: 401 has one code only
if (listed.error?.status === 401 && listed.error.code === "invalid_request") listed.response;
