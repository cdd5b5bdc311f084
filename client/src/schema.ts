// Generated from the published document by `npm run client`. Don't change it.

export interface components {
    schemas: {
        /** @description A pet to add. Unknown fields are ignored. */
        NewPet: {
            /** @description Name of the pet. It is stored as sent: neither trimmed nor normalised. */
            name: string;
            /**
             * Format: int64
             * @description Category of the pet: any 64-bit integer.
             */
            categoryId: bigint;
            status?: components["schemas"]["PetStatus"];
        };
        /** @description A pet for sale. Optional fields that were not given are absent. */
        Pet: {
            /**
             * Format: int64
             * @description ID of the pet. IDs are never reused.
             */
            id: bigint;
            /** @description Name of the pet. It is stored as sent: neither trimmed nor normalised. */
            name: string;
            /**
             * Format: int64
             * @description Category of the pet: any 64-bit integer.
             */
            categoryId: bigint;
            status?: components["schemas"]["PetStatus"];
        };
        /**
         * @description Sales status of a pet.
         * @enum {string}
         */
        PetStatus: "available" | "pending" | "sold";
        /** @description The body of every error: exactly these three fields. */
        Error: {
            /**
             * @description The kind of error. Branch on it.
             * @enum {string}
             */
            code: "invalid_request" | "unauthorized" | "not_found" | "method_not_allowed" | "operation_removed" | "payload_too_large" | "unsupported_media_type" | "idempotency_key_reused" | "rate_limit_exceeded" | "key_banned" | "internal_error" | "service_unavailable";
            /** @description What is wrong, in English. Show it to people. */
            message: string;
            /**
             * @description Same as the status of the response.
             * @enum {integer}
             */
            status: 400 | 401 | 404 | 405 | 410 | 413 | 415 | 422 | 429 | 500 | 503;
        };
        /** @description One window: the current UTC minute, or the current UTC day. */
        UsageWindow: {
            /** @description Requests that the window admits. */
            limit: number;
            /** @description Requests admitted so far. */
            used: number;
            /** @description Requests remaining. During a ban none of them is admitted: see `bannedUntil`. */
            remaining: number;
            /** @description Start of the next window (Unix time in seconds). */
            reset: number;
        };
        /** @description Requests of a key on one UTC day. */
        UsageDay: {
            /**
             * Format: date
             * @description The UTC day.
             */
            date: string;
            /** @description Admitted requests. */
            admitted: number;
            /** @description Requests refused because the minute's limit was used up. */
            refusedByMinute: number;
            /** @description Requests refused because the day's limit was used up. */
            refusedByDay: number;
            /** @description The most requests, admitted and refused, in one minute of the day. */
            busiestMinute: number;
        };
        /** @description Usage of a key. */
        Usage: {
            /**
             * @description The plan of the key.
             * @enum {string}
             */
            plan: "free" | "pro" | "business" | "enterprise";
            minute: components["schemas"]["UsageWindow"];
            day: components["schemas"]["UsageWindow"];
            /** @description End of the ban (Unix time in seconds), or null. */
            bannedUntil: number | null;
            /** @description The last 30 UTC days, oldest first; the last entry is today. */
            days: components["schemas"]["UsageDay"][];
        };
        /** @description A page of pets, ordered by `id`. */
        Pets: components["schemas"]["Pet"][];
        ListParameters: {
            /**
             * @description Page size.
             * @default 20
             */
            limit?: number;
            /** @description Only pets with this status. */
            status?: components["schemas"]["PetStatus"];
            /** @description Start of the page, from the `Link` header of the previous page. Cursors are opaque. */
            cursor?: string;
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type NewPet = components['schemas']['NewPet'];
export type Pet = components['schemas']['Pet'];
export type PetStatus = components['schemas']['PetStatus'];
export type Error = components['schemas']['Error'];
export type UsageWindow = components['schemas']['UsageWindow'];
export type UsageDay = components['schemas']['UsageDay'];
export type Usage = components['schemas']['Usage'];
export type Pets = components['schemas']['Pets'];
export type ListParameters = components['schemas']['ListParameters'];
