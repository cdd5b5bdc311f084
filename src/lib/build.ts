// Which build this is.

/** A deployment compiles this into the code (scripts/commands/deploy.ts, scripts/commands/preview.ts). */
declare const BUILD: string | undefined;

/** The name of a deployed build; undefined if the code runs locally. */
export const DEPLOYED_BUILD = typeof BUILD === "undefined" ? undefined : BUILD;
