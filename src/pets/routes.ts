// The operations on pets (contract, section 4). JSON of pets comes from the store as text and is passed on
// as it is: parsing it would round 64-bit ids.

import { type Context, Hono, type TypedResponse } from "hono";
import type { AppEnv } from "../env.ts";
import { ApiError } from "../errors.ts";
import { parseInt64 } from "../int64.ts";
import { type Json, jsonBody } from "../json.ts";
import { validQuery } from "../validation.ts";
import { insertPetOnce } from "./creations.ts";
import { encodeCursor } from "./cursor.ts";
import { deprecated } from "./deprecation.ts";
import { parseIdempotencyKey } from "./idempotency-key.ts";
import { NewPet, PageQuery, type Pet } from "./schema.ts";
import { findPage, findPet, insertPet } from "./store.ts";

export const pets = new Hono<AppEnv>()

  // listPets
  .get("/", validQuery(PageQuery), async (c) => {
    const query = c.req.valid("query");
    const { petsJson, nextId } = await findPage(c.env.DB, query);
    if (nextId !== undefined) c.header("Link", `<${nextPageUrl(c.req.url, query, nextId)}>; rel="next"`);
    return json<Pet[], 200>(c, petsJson, 200);
  })

  // createPet
  .post("/", jsonBody(NewPet), async (c) => {
    const pet = c.req.valid("json");
    const idempotencyKey = parseIdempotencyKey(c.req.header("Idempotency-Key"));
    const { id, petJson } =
      idempotencyKey === undefined
        ? await insertPet(c.env.DB, pet)
        : await insertPetOnce(c.env.DB, pet, { keyId: c.var.key.id, idempotencyKey }, c.var.nowMs);
    c.header("Location", `/v1/pets/${id}`);
    return json<Pet, 201>(c, petJson, 201);
  })

  // getPet
  .get("/:petId", deprecated(), async (c) => {
    const id = parseInt64(c.req.param("petId"));
    const petJson = id === undefined ? undefined : await findPet(c.env.DB, id);
    if (petJson === undefined) throw new ApiError("not_found", "no pet has this id");
    return json<Pet, 200>(c, petJson, 200);
  });

/** The response of a JSON text, and for clients in TypeScript what it is the text of. */
function json<Value, Status extends 200 | 201>(
  c: Context<AppEnv>,
  text: string,
  status: Status,
): Response & TypedResponse<Json<Value>, Status, "json"> {
  const response: Response = c.body(text, status, { "Content-Type": "application/json" });
  return response as Response & TypedResponse<Json<Value>, Status, "json">;
}

/** The address of the next page: the same list, the same limit and status, from another place on. */
function nextPageUrl(url: string, { limit, status }: PageQuery, nextId: bigint): string {
  const next = new URL(url);
  next.search = new URLSearchParams({
    limit: `${limit}`,
    ...(status && { status }),
    cursor: encodeCursor(nextId),
  }).toString();
  return next.href;
}
