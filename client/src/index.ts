export type { CallOptions, RequestEvent, ResponseEvent, WaitEvent } from "./call.ts";
export {
  ApiError,
  ConnectionError,
  type ErrorCode,
  PetstoreError,
  RateLimitError,
  TimeoutError,
} from "./errors.ts";
export { parse, stringify } from "./json.ts";
export type { Page, PetList } from "./pages.ts";
export { type ClientOptions, type CreateOptions, type NewPet, Petstore } from "./petstore.ts";
export type { RateLimit, RateLimitWindow } from "./rate-limit.ts";
export type { ListParameters, Pet, PetStatus, Usage, UsageDay, UsageWindow } from "./schema.ts";
