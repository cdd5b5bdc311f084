// The reference page: its forms, its contents, and the origin of this service in the guide. The page is complete without them.

import { PLACEHOLDERS } from "../../samples/samples.ts";
import { startConsoles } from "./console.ts";
import { startNavigation } from "./navigation.ts";

for (const code of document.querySelectorAll("main code")) {
  if (code.textContent?.includes(PLACEHOLDERS.origin))
    code.textContent = code.textContent.replaceAll(PLACEHOLDERS.origin, location.origin);
}
startConsoles();
startNavigation();
