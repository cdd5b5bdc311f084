// The bundles of the two releases.

// biome-ignore-start lint/correctness/noUndeclaredDependencies: a path from the root
declare module "older" {
  export { ApiKey } from "src/index.ts";
}

declare module "current" {
  export { ApiKey } from "src/index.ts";
}
// biome-ignore-end lint/correctness/noUndeclaredDependencies: a path from the root
