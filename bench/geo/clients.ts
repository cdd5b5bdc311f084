// The clients of the simulation: they send the requests of a task and check every response. A wrong response fails the bench.

import { Agent, type IncomingHttpHeaders } from "node:http";
import { type Response, send } from "../measure/http.ts";
import { REGIONS } from "./regions.ts";
import { HOPS_HEADER } from "./worker.ts";
import { CRAWLED_PAGE, CRAWLED_PAGES, generator, PAGE, type Task } from "./workload.ts";

/** What a request is for. A writer reads the last page after a creation. */
export type Purpose = "integrator" | "poller" | "crawler" | "last page" | "creation";

export const PURPOSES: readonly Purpose[] = ["integrator", "poller", "crawler", "last page", "creation"];

/** A request and its response. */
export interface Sample {
  purpose: Purpose;
  /** An index into the regions. */
  region: number;
  /** From the first byte sent to the last one received, over the loopback: nearly all of it is in the Worker. */
  ms: number;
  hops: number;
}

/** The paths of an implementation's pages. */
export interface Pagination {
  first(firstId: number, limit: number): string;
  /** The page after one with these response headers, with `limit` pets and the last id `lastId`. */
  next(headers: IncomingHttpHeaders, lastId: number, limit: number): string;
}

/** Below the 5 s after which workerd closes an idle connection, so that no request meets that. */
const IDLE_MS = 2_000;

interface Pet {
  id: number;
  name: string;
}

/** A task with the random numbers that choose an isolate for each of its requests. */
type RunningTask = Task & { random: () => number };

export class Clients {
  readonly samples: Sample[] = [];
  readonly #urls: readonly (readonly URL[])[];
  readonly #secrets: ReadonlyMap<string, string>;
  readonly #pagination: Pagination;
  readonly #agent = new Agent({ keepAlive: true, timeout: IDLE_MS });

  /** `urls`: the isolates of each region. `secrets`: by the name of the key. */
  constructor(
    urls: readonly (readonly URL[])[],
    secrets: ReadonlyMap<string, string>,
    pagination: Pagination,
  ) {
    this.#urls = urls;
    this.#secrets = secrets;
    this.#pagination = pagination;
  }

  /** Throws if any response is not the expected one. */
  async run(drawn: Task): Promise<void> {
    // The time is a seed that the workload's seed has drawn.
    const task = { ...drawn, random: generator(Math.floor(drawn.atMs * 1_000)) };
    if (task.client === "crawler") return this.#crawl(task);
    if (task.client === "writer") return this.#create(task);
    await this.#list(task, task.client, this.#pagination.first(task.firstId, PAGE), PAGE, task.firstId);
  }

  close(): void {
    this.#agent.destroy();
  }

  async #crawl(task: RunningTask): Promise<void> {
    let { firstId } = task;
    let path = this.#pagination.first(firstId, CRAWLED_PAGE);
    for (let page = 0; page < CRAWLED_PAGES; page += 1) {
      const { headers } = await this.#list(task, "crawler", path, CRAWLED_PAGE, firstId);
      firstId += CRAWLED_PAGE;
      path = this.#pagination.next(headers, firstId - 1, CRAWLED_PAGE);
    }
  }

  /** Creates a pet, and expects it in the last page in both regions. */
  async #create(task: RunningTask): Promise<void> {
    const { region, otherRegion } = task;
    const name = `From ${REGIONS[region]?.name} at ${Math.round(task.atMs)}`;
    const newPet = JSON.stringify({ name, categoryId: 1 });
    const created = await this.#send(task, "creation", region, "/v1/pets", newPet);
    const { id } = JSON.parse(created.text) as Pet;
    const path = this.#pagination.first(id - PAGE / 4, PAGE);
    for (const each of [region, otherRegion]) {
      const { text } = await this.#send(task, "last page", each, path);
      // A replica may not have the pet yet.
      if ((JSON.parse(text) as Pet[]).some((pet) => pet.id === id && pet.name === name)) continue;
      const [here, there] = [REGIONS[each]?.name, REGIONS[region]?.name];
      throw new Error(`pet ${id}, created in ${there}, is missing in ${here}: ${text}`);
    }
  }

  async #list(
    task: RunningTask,
    purpose: Purpose,
    path: string,
    length: number,
    firstId: number,
  ): Promise<Response> {
    const response = await this.#send(task, purpose, task.region, path);
    const ids = (JSON.parse(response.text) as Pet[]).map(({ id }) => id);
    if (ids.length === length && ids.every((id, index) => id === firstId + index)) return response;
    throw new Error(`${path}: expected ${length} pets from ${firstId} on, got ${ids}`);
  }

  async #send(
    { key, random }: RunningTask,
    purpose: Purpose,
    region: number,
    path: string,
    newPet?: string,
  ): Promise<Response> {
    const headers = {
      Authorization: `Bearer ${this.#secrets.get(key)}`,
      ...(newPet && { "Content-Type": "application/json" }),
    };
    const isolates = this.#urls[region] ?? [];
    const url = new URL(path, isolates[Math.floor(random() * isolates.length)]);
    const startedMs = performance.now();
    const response = await send(this.#agent, url, headers, newPet);
    const ms = performance.now() - startedMs;
    if (response.status !== (newPet === undefined ? 200 : 201)) {
      const { status, text } = response;
      throw new Error(`${purpose} in ${REGIONS[region]?.name}: ${path} got ${status}: ${text}`);
    }
    const hops = Number(response.headers[HOPS_HEADER.toLowerCase()]);
    this.samples.push({ purpose, region, ms, hops });
    return response;
  }
}
