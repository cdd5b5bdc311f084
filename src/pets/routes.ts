// The operations on pets. The store's JSON text is sent unparsed, because parsing would round int64.

import { zValidator } from "@hono/zod-validator";
import { Hono } from "hono";
import { readNearest } from "../d1/replicas.ts";
import { jsonBody } from "../http/body.ts";
import { ApiError } from "../http/errors.ts";
import { HEADER } from "../http/header-names.ts";
import { MESSAGES } from "../http/messages.ts";
import { remembering, requireValid } from "../http/query.ts";
import { respondJson } from "../http/respond.ts";
import { parseInt64 } from "../lib/int64.ts";
import { deprecated } from "./deprecation.ts";
import { insertPetOnce, parseIdempotencyKey } from "./idempotency.ts";
import type { IfPetsNeverChange } from "./immutable.ts";
import type { PageCache } from "./page-cache.ts";
import type { PetsEnv } from "./prefetch.ts";
import { NewPet, PageQuery, pageQueryText } from "./schema.ts";
import { findPet, insertPet } from "./store.ts";

export function petRoutes(pages: PageCache) {
  return (
    new Hono<PetsEnv>()

      // listPets
      .get("/", remembering(zValidator("query", PageQuery, requireValid)), async (c) => {
        const query = c.req.valid("query");
        const { petsJson, nextCursor } = await (c.get("page") ??
          pages.get(c.env.PETS_DB, query, c.get("ahead")));
        if (nextCursor !== undefined) c.get("headers").Link = nextLink(c.req.url, query, nextCursor);
        return respondJson(c, petsJson, 200);
      })

      // createPet
      .post("/", jsonBody(NewPet), async (c) => {
        const pet = c.req.valid("json");
        const idempotencyKey = parseIdempotencyKey(c.req.header(HEADER.idempotencyKey));
        const { id, petJson, isReplayed } =
          idempotencyKey === undefined
            ? { ...(await insertPet(c.env.PETS_DB, pet)), isReplayed: false }
            : await insertPetOnce(c.env.PETS_DB, pet, { keyId: c.var.key.id, idempotencyKey }, c.var.nowMs);
        const headers = c.get("headers");
        headers.Location = `/v1/pets/${id}`;
        if (isReplayed) headers[HEADER.idempotentReplayed] = "true";
        else c.get("log").petId = id;
        return respondJson(c, petJson, 201);
      })

      // getPet
      .get("/:petId", deprecated, async (c) => {
        const id = parseInt64(c.req.param("petId"));
        // Any replica may serve it.
        const petJson: IfPetsNeverChange<string> | undefined =
          id === undefined ? undefined : await readNearest(c.env.PETS_DB, (session) => findPet(session, id));
        if (petJson === undefined) throw new ApiError("not_found", MESSAGES.not_found.pet);
        return respondJson(c, petJson, 200);
      })
  );
}

/** The link to the next page (RFC 8288), with the same parameters. */
function nextLink(url: string, query: PageQuery, cursor: string): string {
  const end = url.search(/[?#]/);
  const path = end === -1 ? url : url.slice(0, end);
  return `<${path}?${pageQueryText({ ...query, cursor })}>; rel="next"`;
}
