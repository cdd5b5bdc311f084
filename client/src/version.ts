/** The version of this package. */
export const VERSION = "1.0.0";
