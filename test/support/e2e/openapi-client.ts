// @ts-nocheck
// A client with types generated from the published document. A test generates the types, and compiles a copy of this file
// beside them, without the first line.

import createClient from "openapi-fetch";
import type { components, paths } from "./document.ts";

type Client = ReturnType<typeof createClient<paths>>;
type Pet = components["schemas"]["Pet"];

/** Adds a pet, lists one that is sold, and requests one that does not exist. */
export async function exchange(baseUrl: string, key: string, fetch: (request: Request) => Promise<Response>) {
  const client: Client = createClient<paths>({ baseUrl, fetch, headers: { Authorization: `Bearer ${key}` } });

  const added = await client.POST("/pets", { body: { name: "Zoë", categoryId: 2, status: "sold" } });
  if (added.error) throw new Error(added.error.message);
  const pet: Pet = added.data;

  const listed = await client.GET("/pets", { params: { query: { limit: 1, status: "sold" } } });
  if (listed.error) throw new Error(listed.error.message);
  const pets: Pet[] = listed.data;

  const { error } = await client.GET("/pets/{petId}", { params: { path: { petId: -1 } } });
  if (error?.status !== 404) throw new Error("a pet has this id");
  const code: "not_found" = error.code;
  return { pet, pets, error: { ...error, code } };
}

/** Code that must not compile. It is never called. */
export async function mistakes(client: Client, pet: Pet) {
  // @ts-expect-error: unknown status
  await client.GET("/pets", { params: { query: { status: "lost" } } });
  // @ts-expect-error: categoryId is required
  await client.POST("/pets", { body: { name: "Rex" } });
  // @ts-expect-error: categoryId is a number
  await client.POST("/pets", { body: { name: "Rex", categoryId: "1" } });
  // @ts-expect-error: unknown field
  pet.colour;
  // @ts-expect-error: status is optional
  pet.status.length;
  const { error } = await client.GET("/pets");
  // @ts-expect-error: a list has no 404
  if (error?.code === "not_found") return;
  // @ts-expect-error: 401 has one code only
  if (error?.status === 401 && error.code === "invalid_request") return;
}
