// The names of the headers that the service defines, or sends with a meaning of its own. The client package has a copy: test/unit/client
// gives it responses of the service.

import { LIMIT_HEADER } from "../limits/index.ts";

export const HEADER = {
  requestId: "X-Request-Id",
  ...LIMIT_HEADER,
  idempotencyKey: "Idempotency-Key",
  idempotentReplayed: "Idempotent-Replayed",
  deprecation: "Deprecation",
  sunset: "Sunset",
  prefer: "Prefer",
  serverTiming: "Server-Timing",
} as const;
