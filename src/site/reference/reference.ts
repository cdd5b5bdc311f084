// The reference page: its forms, its contents, and the origin of this service in the guide. The page is complete without them.

import { startConsoles } from "./console.ts";
import { startNavigation } from "./navigation.ts";
import { PLACEHOLDERS } from "./samples.ts";

for (const code of document.querySelectorAll("main code")) {
  if (code.textContent?.includes(PLACEHOLDERS.origin))
    code.textContent = code.textContent.replaceAll(PLACEHOLDERS.origin, location.origin);
}
startConsoles();
startNavigation();
