// Optimizations that save network hops, besides leases. They don't change responses: tests run with all and with none.

export interface Optimizations {
  /** Reloads cached keys and pages in the background before they become stale. */
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
