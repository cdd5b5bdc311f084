// Generated from the published document by `npm run client`. Don't change it.

/** A pet to add. Unknown fields are ignored. */
export type NewPet = {
    /** Name of the pet: well-formed Unicode without U+0000. It is stored as sent, neither trimmed nor normalised. */
    name: string;
    /** Category of the pet: any 64-bit integer. */
    categoryId: bigint;
    /** Sales status. It stays absent if it is not given; null is refused. */
    status?: PetStatus;
};
/** A pet for sale. Optional fields that were not given are absent. */
export type Pet = {
    /** ID of the pet. IDs are never reused. */
    id: bigint;
    /** Name of the pet: well-formed Unicode without U+0000. It is stored as sent, neither trimmed nor normalised. */
    name: string;
    /** Category of the pet: any 64-bit integer. */
    categoryId: bigint;
    /** Sales status. It stays absent if it is not given; null is refused. */
    status?: PetStatus;
};
/** Sales status of a pet. */
export type PetStatus = "available" | "pending" | "sold";
/** The body of every error: exactly these three fields. */
export type Error = {
    /** The kind of error. Branch on it. */
    code: "invalid_request" | "unauthorized" | "forbidden" | "not_found" | "method_not_allowed" | "operation_removed" | "payload_too_large" | "unsupported_media_type" | "idempotency_key_reused" | "rate_limit_exceeded" | "key_banned" | "internal_error" | "service_unavailable";
    /** What is wrong, in English. Show it to people. */
    message: string;
    /** Same as the status of the response. */
    status: 400 | 401 | 403 | 404 | 405 | 410 | 413 | 415 | 422 | 429 | 500 | 503;
};
/** One window, such as the current UTC day. */
export type UsageWindow = {
    /** Requests that the window admits. */
    limit: number;
    /** Requests admitted so far. */
    used: number;
    /** Requests remaining. During a ban none of them is admitted: see `bannedUntil`. */
    remaining: number;
    /** Start of the next window (Unix time in seconds). */
    reset: number;
};
/** The windows of now, the shortest first. */
export type UsageWindows = {
    minute: UsageWindow;
    day: UsageWindow;
};
/** Refused requests, by the window whose limit was used up. */
export type Refused = {
    /** Requests refused because the minute's limit was used up. */
    minute: number;
    /** Requests refused because the day's limit was used up. */
    day: number;
};
/** The fullest windows of a day, of those that are shorter than a day. */
export type Busiest = {
    /** The most requests, admitted and refused, in one minute. */
    minute: number;
};
/** Requests of a key on one UTC day. */
export type UsageDay = {
    /** The UTC day. */
    date: string;
    /** Admitted requests. */
    admitted: number;
    refusedBy: Refused;
    busiest: Busiest;
};
/** Usage of a key. */
export type Usage = {
    /** The plan of the key. */
    plan: "free" | "pro" | "business" | "enterprise";
    windows: UsageWindows;
    /** End of the ban (Unix time in seconds), or null. */
    bannedUntil: number | null;
    /** The last 30 UTC days, oldest first; the last entry is today. */
    days: UsageDay[];
};
/** A page of pets, ordered by `id`. */
export type Pets = Pet[];
export type ListParameters = {
    /**
     * Page size.
     * @default 20
     */
    limit?: number;
    /** Only pets with this status. Pets without one are in none of these lists. */
    status?: PetStatus;
    /** Start of the page, from the `Link` header of the previous page. Cursors are opaque. */
    cursor?: string;
};
