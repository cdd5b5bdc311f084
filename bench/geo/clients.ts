// The world's clients: they send what a visit says, and look at every answer. A wrong one ends the bench.

import { Agent, type IncomingHttpHeaders, request } from "node:http";
import { REGIONS } from "./regions.ts";
import { PAGE, type Visit, WALKED_PAGE, WALKED_PAGES } from "./visits.ts";
import { HOPS_HEADER } from "./worker.ts";

/** What a request was for. The last page is what a writer reads after a creation. */
export type Purpose = "integrator" | "poller" | "walker" | "last page" | "creation";

export const PURPOSES: readonly Purpose[] = ["integrator", "poller", "walker", "last page", "creation"];

/** One answered request. */
export interface Sample {
  purpose: Purpose;
  /** By its place among the regions. */
  region: number;
  /** From the first byte sent to the last one received, over the loopback: nearly all of it is in the Worker. */
  ms: number;
  hops: number;
}

/** How a contestant's pages are asked for. */
export interface Dialect {
  page(firstId: number, limit: number): string;
  /** The path of the page after this one, which has `limit` pets and ends with `lastId`. */
  next(headers: IncomingHttpHeaders, lastId: number, limit: number): string;
}

/** When an idle connection is given up: workerd does so after 5 s, and a request must not meet that. */
const IDLE_MS = 2_000;

interface Pet {
  id: number;
  name: string;
}

interface Answer {
  headers: IncomingHttpHeaders;
  body: unknown;
}

export class Clients {
  readonly samples: Sample[] = [];
  readonly #urls: readonly URL[];
  readonly #secrets: ReadonlyMap<string, string>;
  readonly #dialect: Dialect;
  readonly #agent = new Agent({ keepAlive: true, timeout: IDLE_MS });

  /** `urls`: of the Worker in each region. `secrets`: by the name of the key. */
  constructor(urls: readonly URL[], secrets: ReadonlyMap<string, string>, dialect: Dialect) {
    this.#urls = urls;
    this.#secrets = secrets;
    this.#dialect = dialect;
  }

  /** Throws if any answer is not the expected one. */
  async visit(visit: Visit): Promise<void> {
    switch (visit.habit) {
      case "poller":
      case "integrator":
        await this.#list(visit, visit.habit, this.#dialect.page(visit.firstId, PAGE), PAGE, visit.firstId);
        return;
      case "walker":
        return this.#walk(visit);
      case "writer":
        return this.#create(visit);
    }
  }

  close(): void {
    this.#agent.destroy();
  }

  async #walk(visit: Visit): Promise<void> {
    let { firstId } = visit;
    let path = this.#dialect.page(firstId, WALKED_PAGE);
    for (let page = 0; page < WALKED_PAGES; page += 1) {
      const { headers } = await this.#list(visit, "walker", path, WALKED_PAGE, firstId);
      firstId += WALKED_PAGE;
      path = this.#dialect.next(headers, firstId - 1, WALKED_PAGE);
    }
  }

  async #create(visit: Visit): Promise<void> {
    const { region, otherRegion } = visit;
    const name = `From ${REGIONS[region]?.name} at ${Math.round(visit.atMs)}`;
    const { body } = await this.#send(visit, "creation", region, "/v1/pets", 201, { name, categoryId: 1 });
    const { id } = body as Pet;
    const firstId = id - PAGE / 4;
    const path = this.#dialect.page(firstId, PAGE);
    for (const each of [region, otherRegion]) {
      const { body: page } = await this.#send(visit, "last page", each, path, 200);
      // What a replica can't know yet.
      if ((page as Pet[]).some((pet) => pet.id === id && pet.name === name)) continue;
      throw new Error(
        `pet ${id} is missing in ${REGIONS[each]?.name} after its creation in ${REGIONS[region]?.name}: ${JSON.stringify(page)}`,
      );
    }
  }

  async #list(
    visit: Visit,
    purpose: Purpose,
    path: string,
    length: number,
    firstId: number,
  ): Promise<Answer> {
    const answer = await this.#send(visit, purpose, visit.region, path, 200);
    const ids = (answer.body as Pet[]).map(({ id }) => id);
    if (ids.length === length && ids.every((id, index) => id === firstId + index)) return answer;
    throw new Error(`${path} should have ${length} pets from ${firstId} on, and has ${ids}`);
  }

  async #send(
    { key }: Visit,
    purpose: Purpose,
    region: number,
    path: string,
    status: number,
    newPet?: object,
  ): Promise<Answer> {
    const startedMs = performance.now();
    const { answered, headers, text } = await this.#exchange(key, region, path, newPet);
    const ms = performance.now() - startedMs;
    if (answered !== status) {
      throw new Error(
        `${purpose} in ${REGIONS[region]?.name}: ${path} was answered with ${answered}: ${text}`,
      );
    }
    this.samples.push({ purpose, region, ms, hops: Number(headers[HOPS_HEADER.toLowerCase()]) });
    return { headers, body: JSON.parse(text) };
  }

  #exchange(key: string, region: number, path: string, newPet?: object) {
    const headers = {
      Authorization: `Bearer ${this.#secrets.get(key)}`,
      ...(newPet && { "Content-Type": "application/json" }),
    };
    const method = newPet === undefined ? "GET" : "POST";
    const url = new URL(path, this.#urls[region]);
    return new Promise<{ answered: number; headers: IncomingHttpHeaders; text: string }>(
      (resolve, reject) => {
        const sent = request(url.href, { method, agent: this.#agent, headers }, (response) => {
          let text = "";
          response.setEncoding("utf8");
          response.on("data", (chunk) => (text += chunk));
          response.on("end", () =>
            resolve({ answered: response.statusCode ?? 0, headers: response.headers, text }),
          );
          response.on("error", reject);
        });
        sent.on("error", reject);
        sent.end(newPet && JSON.stringify(newPet));
      },
    );
  }
}
