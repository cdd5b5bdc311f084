// Where the project is.

import { fileURLToPath } from "node:url";

export const ROOT = fileURLToPath(new URL("../../..", import.meta.url).href).replace(/\/$/, "");
