// @ts-nocheck
// A client whose types are made from the published document. They are not there before a test has made them, so the
// compiler passes over this file; the test has it check a copy without the first line, beside the types.

import createClient from "openapi-fetch";
import type { components, paths } from "./document.ts";

type Client = ReturnType<typeof createClient<paths>>;
type Pet = components["schemas"]["Pet"];

/** Adds a pet, lists one that is sold, and asks for one that is not there. */
export async function exchange(baseUrl: string, key: string, fetch: (request: Request) => Promise<Response>) {
  const client: Client = createClient<paths>({ baseUrl, fetch, headers: { Authorization: `Bearer ${key}` } });

  const added = await client.POST("/pets", { body: { name: "Zoë", categoryId: 2, status: "sold" } });
  if (added.error) throw new Error(added.error.message);
  const pet: Pet = added.data;

  const listed = await client.GET("/pets", { params: { query: { limit: 1, status: "sold" } } });
  if (listed.error) throw new Error(listed.error.message);
  const pets: Pet[] = listed.data;

  const { error } = await client.GET("/pets/{petId}", { params: { path: { petId: -1 } } });
  if (error?.status !== 404) throw new Error("a pet with this id is there");
  const code: "not_found" = error.code;
  return { pet, pets, error: { ...error, code } };
}

/** What the types forbid. It is never called: that these lines must not compile is all. */
export async function mistakes(client: Client, pet: Pet) {
  // @ts-expect-error: no such path
  await client.GET("/cats");
  // @ts-expect-error: no such method
  await client.DELETE("/pets/{petId}", { params: { path: { petId: 1 } } });
  // @ts-expect-error: no such status
  await client.GET("/pets", { params: { query: { status: "lost" } } });
  // @ts-expect-error: categoryId is required
  await client.POST("/pets", { body: { name: "Rex" } });
  // @ts-expect-error: categoryId is a number
  await client.POST("/pets", { body: { name: "Rex", categoryId: "1" } });
  // @ts-expect-error: petId is required
  await client.GET("/pets/{petId}");
  // @ts-expect-error: no such field
  pet.colour;
  // @ts-expect-error: it may have no status
  pet.status.length;
  const { data, error } = await client.GET("/pets");
  // @ts-expect-error: there is either a list or an error
  data.length;
  // @ts-expect-error: the list is always there
  if (error?.code === "not_found") return;
  // @ts-expect-error: 401 has one code only
  if (error?.status === 401 && error.code === "invalid_request") return;
}
