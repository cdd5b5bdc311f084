// The form of a secret, for the Worker, the document and the pages. secret.ts says what its parts are for.

export const SECRET_PREFIX = "pet_";
/** Of a key's id, without its prefix. 71 bits: collisions are negligible, and it is short enough to type. */
export const ID_LENGTH = 12;
export const RANDOM_LENGTH = 32;
/** 62^6 is more than 2^32. */
export const CHECKSUM_LENGTH = 6;
/** Letters and digits after the prefix. */
export const SECRET_LENGTH = ID_LENGTH + RANDOM_LENGTH + CHECKSUM_LENGTH;

export const SECRET_FORMAT = new RegExp(`^${SECRET_PREFIX}[0-9A-Za-z]{${SECRET_LENGTH}}$`);
