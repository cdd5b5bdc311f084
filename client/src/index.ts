export type { ApiPromise, ApiResponse, Page, PetList } from "./api-promise.ts";
export type { CreateResult } from "./create-many.ts";
export {
  ApiError,
  ConnectionError,
  type ErrorCode,
  PetstoreError,
  RateLimitError,
  TimeoutError,
} from "./errors.ts";
export { parse, stringify } from "./json.ts";
export type {
  CallOptions,
  ClientOptions,
  CreateOptions,
  EndEvent,
  Hooks,
  RequestEvent,
  ResponseEvent,
  WaitEvent,
} from "./options.ts";
export {
  type CreateManyOptions,
  type NewPet,
  type Pets,
  Petstore,
  type RequestParameters,
} from "./petstore.ts";
export type { RateLimit, RateLimitWindow } from "./rate-limit.ts";
export type {
  Busiest,
  ListParameters,
  Pet,
  PetStatus,
  Refused,
  Usage,
  UsageDay,
  UsageWindow,
  UsageWindows,
} from "./schema.ts";
