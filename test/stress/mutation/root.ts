// The root of the project.

import { fileURLToPath } from "node:url";

export const ROOT = fileURLToPath(new URL("../../..", import.meta.url).href).replace(/\/$/, "");
