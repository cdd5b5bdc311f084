// The clients of the simulation: they send the requests of a task and check every response. A wrong response fails the bench.

import { HEADER } from "../../src/http/header-names.ts";
import { PREFERENCE } from "../../src/http/server-timing.ts";
import { type Provenance, provenanceOf } from "../simulation/hops.ts";
import { REGIONS } from "../simulation/regions.ts";
import { CRAWLED_PAGE, CRAWLED_PAGES, generator, PAGE, type Task } from "./workload.ts";

/** What a request is for. A writer reads the last page after a creation. */
export const PURPOSES = ["integrator", "poller", "crawler", "last page", "creation"] as const;

export type Purpose = (typeof PURPOSES)[number];

/** A request and its response. */
export interface Sample extends Provenance {
  purpose: Purpose;
  /** An index into the regions. */
  region: number;
  /** From the first byte sent to the last one received, over the loopback: nearly all of it is in the Worker. */
  ms: number;
}

/** The paths of an implementation's pages. */
export interface Pagination {
  first(firstId: number, limit: number): string;
  /** The page after one with this header Link, with `limit` pets and the last id `lastId`. */
  next(link: string | null, lastId: number, limit: number): string;
}

export interface Service {
  /** Of the isolates of each region. */
  urls: readonly (readonly URL[])[];
  /** By the name of the key. */
  secrets: ReadonlyMap<string, string>;
  pagination: Pagination;
}

interface Pet {
  id: number;
  name: string;
}

/** A task with the random numbers that choose an isolate for each of its requests. */
type RunningTask = Task & { random: () => number };

export class Clients {
  readonly samples: Sample[] = [];
  readonly #service: Service;

  constructor(service: Service) {
    this.#service = service;
  }

  /** Throws if any response is not the expected one. */
  async run(drawn: Task): Promise<void> {
    // The time is a seed that the workload's seed has drawn.
    const task = { ...drawn, random: generator(Math.floor(drawn.atMs * 1_000)) };
    if (task.client === "crawler") return this.#crawl(task);
    if (task.client === "writer") return this.#create(task);
    await this.#list(
      task,
      task.client,
      this.#service.pagination.first(task.firstId, PAGE),
      PAGE,
      task.firstId,
    );
  }

  async #crawl(task: RunningTask): Promise<void> {
    let { firstId } = task;
    let path = this.#service.pagination.first(firstId, CRAWLED_PAGE);
    for (let page = 0; page < CRAWLED_PAGES; page += 1) {
      const link = await this.#list(task, "crawler", path, CRAWLED_PAGE, firstId);
      firstId += CRAWLED_PAGE;
      path = this.#service.pagination.next(link, firstId - 1, CRAWLED_PAGE);
    }
  }

  /** Creates a pet, and expects it in the last page in both regions. */
  async #create(task: RunningTask): Promise<void> {
    const { region, otherRegion } = task;
    const name = `From ${REGIONS[region]?.name} at ${Math.round(task.atMs)}`;
    const newPet = JSON.stringify({ name, categoryId: 1 });
    const created = await this.#send(task, "creation", region, "/v1/pets", newPet);
    const { id } = JSON.parse(created.text) as Pet;
    const path = this.#service.pagination.first(id - PAGE / 4, PAGE);
    for (const each of [region, otherRegion]) {
      const { text } = await this.#send(task, "last page", each, path);
      // A replica may not have the pet yet.
      if ((JSON.parse(text) as Pet[]).some((pet) => pet.id === id && pet.name === name)) continue;
      const [here, there] = [REGIONS[each]?.name, REGIONS[region]?.name];
      throw new Error(`pet ${id}, created in ${there}, is missing in ${here}: ${text}`);
    }
  }

  /** Returns the header Link. */
  async #list(
    task: RunningTask,
    purpose: Purpose,
    path: string,
    length: number,
    firstId: number,
  ): Promise<string | null> {
    const { text, link } = await this.#send(task, purpose, task.region, path);
    const ids = (JSON.parse(text) as Pet[]).map(({ id }) => id);
    if (ids.length === length && ids.every((id, index) => id === firstId + index)) return link;
    throw new Error(`${path}: expected ${length} pets from ${firstId} on, got ${ids}`);
  }

  async #send(
    { key, random }: RunningTask,
    purpose: Purpose,
    region: number,
    path: string,
    newPet: string | null = null,
  ): Promise<{ text: string; link: string | null }> {
    const [method, expected] = newPet === null ? ["GET", 200] : ["POST", 201];
    const headers = {
      Authorization: `Bearer ${this.#service.secrets.get(key)}`,
      [HEADER.prefer]: PREFERENCE,
      // workerd closes an idle connection after 5 s: a request on a kept one could meet that.
      Connection: "close",
      ...(newPet !== null && { "Content-Type": "application/json" }),
    };
    const isolates = this.#service.urls[region] ?? [];
    const url = new URL(path, isolates[Math.floor(random() * isolates.length)]);
    const startedMs = performance.now();
    const response = await fetch(url, { method, headers, body: newPet });
    const text = await response.text();
    const ms = performance.now() - startedMs;
    if (response.status !== expected)
      throw new Error(`${purpose} in ${REGIONS[region]?.name}: ${path} got ${response.status}: ${text}`);
    const serverTiming = response.headers.get(HEADER.serverTiming);
    if (serverTiming === null) throw new Error(`${path} has no ${HEADER.serverTiming}`);
    const provenance = provenanceOf(serverTiming, REGIONS[region]?.toReplicaMs ?? 0);
    this.samples.push({ purpose, region, ms, ...provenance });
    return { text, link: response.headers.get("Link") };
  }
}
