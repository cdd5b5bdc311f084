// The names of the headers that the service defines, or sends with a meaning of its own. The client package has a copy: test/unit/client
// gives it responses of the service.

export const HEADER = {
  requestId: "X-Request-Id",
  rateLimitLimit: "X-RateLimit-Limit",
  rateLimitRemaining: "X-RateLimit-Remaining",
  rateLimitReset: "X-RateLimit-Reset",
  rateLimit: "RateLimit",
  rateLimitPolicy: "RateLimit-Policy",
  retryAfter: "Retry-After",
  idempotencyKey: "Idempotency-Key",
  idempotentReplayed: "Idempotent-Replayed",
  deprecation: "Deprecation",
  sunset: "Sunset",
  prefer: "Prefer",
  serverTiming: "Server-Timing",
} as const;
