// What saves network hops, besides leases. Answers are the same without it: tests run with all of it and with none.

export interface Optimizations {
  /** Reads cached keys and pages again in the background, before they are stale. */
  revalidation: boolean;
  pageCache: boolean;
  /** Reads a page while the request is still being counted. */
  prefetch: boolean;
  /** Reads pages and pets at the nearest replica where that can't be wrong. */
  replicas: boolean;
}

export const ALL: Optimizations = { revalidation: true, pageCache: true, prefetch: true, replicas: true };
export const NONE: Optimizations = {
  revalidation: false,
  pageCache: false,
  prefetch: false,
  replicas: false,
};
