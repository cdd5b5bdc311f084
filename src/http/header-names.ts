// The names of the headers that the service defines, or sends with a meaning of its own. Everything else in the repository takes them
// from here, except for the client package: test/e2e/client-headers.test.ts compares its copy with the running service.
// test/unit/header-names.test.ts has the names that clients rely on, and those that the documents mention.

export const HEADER = {
  requestId: "X-Request-Id",
  rateLimitLimit: "X-RateLimit-Limit",
  rateLimitRemaining: "X-RateLimit-Remaining",
  rateLimitReset: "X-RateLimit-Reset",
  rateLimit: "RateLimit",
  rateLimitPolicy: "RateLimit-Policy",
  retryAfter: "Retry-After",
  idempotencyKey: "Idempotency-Key",
  deprecation: "Deprecation",
  sunset: "Sunset",
} as const;
