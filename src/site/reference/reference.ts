// The reference page: shows the operations in Swagger UI, with a console, and repairs what Swagger UI lacks. The page is readable
// before Swagger UI is loaded, and without it.

import { storedKey, storeKey } from "../key.ts";
import { followFragment, markPresent } from "./navigation.ts";
import { storedAddress } from "./sample-tabs.ts";
import { originOf } from "./sample-values.ts";
import { authorizationHeader, type Plugin, petstorePlugin } from "./swagger-ui.ts";
import type { System } from "./system.ts";

declare const SwaggerUIBundle: (options: {
  spec: object;
  dom_id: string;
  layout: string;
  plugins: ((system: System) => Plugin)[];
  requestInterceptor(request: { headers: Record<string, string> }): object;
  responseInterceptor(response: { headers: Record<string, string | string[]> }): object;
  [option: string]: unknown;
}) => System;

fillInOrigin();
bindFields();
const container = document.querySelector("#viewer");
if (container !== null) {
  markPresent(container);
  labelParts(container);
  await showOperations(container);
}

function bindFields(): void {
  const key = document.querySelector<HTMLInputElement>("#key");
  const address = document.querySelector<HTMLInputElement>("#address");
  if (key === null || address === null) return;
  address.placeholder = location.origin;
  const check = () => {
    const isUsable = address.value === "" || originOf(address.value) !== undefined;
    address.setAttribute("aria-invalid", `${!isUsable}`);
  };
  const fill = () => {
    key.value = storedKey();
    address.value = storedAddress.read();
    check();
  };
  fill();
  // The key may have changed on another page before the user came back.
  addEventListener("pageshow", fill);
  key.addEventListener("input", () => storeKey(key.value));
  address.addEventListener("input", () => storedAddress.write(address.value));
  address.addEventListener("input", check);
  document.querySelector("#key-form")?.addEventListener("submit", (event) => event.preventDefault());
}

/** Replaces the example origin in the guide, so that its commands can be pasted. */
function fillInOrigin(): void {
  for (const code of document.querySelectorAll(".guide code")) {
    code.textContent = code.textContent?.replaceAll("https://petstore.example", location.origin) ?? "";
  }
}

async function showOperations(container: Element): Promise<void> {
  const problem = document.querySelector<HTMLElement>("#viewer-problem");
  try {
    const spec = await (await fetch("/openapi.json", { signal: AbortSignal.timeout(10_000) })).json();
    // Swagger UI would send the examples of parameters as if the user had typed them.
    const operations = Object.values<object>(spec.paths).flatMap((path) => Object.values(path));
    for (const { parameters = [] } of operations) {
      for (const parameter of parameters) delete parameter.example;
    }
    const viewer = SwaggerUIBundle({
      spec,
      dom_id: "#viewer",
      layout: "operationsOnly",
      plugins: [petstorePlugin],
      tryItOutEnabled: true,
      syntaxHighlight: { activated: false },
      requestInterceptor(request) {
        const authorization = authorizationHeader();
        if (authorization !== undefined) request.headers.Authorization = authorization;
        return request;
      },
      responseInterceptor(response) {
        // Swagger UI has split the values at ", ", and would join them without the space.
        for (const [name, value] of Object.entries(response.headers)) {
          response.headers[name] = [value].flat().join(", ");
        }
        return response;
      },
    });
    followFragment(container, viewer);
  } catch {
    if (problem === null) return;
    problem.textContent = "The console can't be loaded. Check your connection and reload the page.";
    problem.hidden = false;
  }
}

/** Labels what Swagger UI renders without a label. */
function labelParts(viewer: Element): void {
  const label = (selector: string, text: (part: Element) => string) => {
    for (const part of viewer.querySelectorAll(selector)) {
      if (!part.hasAttribute("aria-label")) part.setAttribute("aria-label", text(part));
    }
  };
  const labelAll = () => {
    label(".examples-select-element", () => "Example");
    label("textarea", () => "Request body");
    label("table[role=region]", (responses) => {
      const operation = responses.closest(".opblock")?.querySelector(".opblock-summary-description");
      return `Responses: ${operation?.textContent}`;
    });
    label("[data-param-name] select, [data-param-name] input", (control) => {
      return control.closest("[data-param-name]")?.getAttribute("data-param-name") ?? "Parameter";
    });
    label(".json-schema-2020-12-accordion:not(:has(.json-schema-2020-12__title))", () => "Schema");
    // They may scroll.
    for (const example of viewer.querySelectorAll<HTMLElement>("pre.example")) example.tabIndex = 0;
  };
  new MutationObserver(labelAll).observe(viewer, { childList: true, subtree: true });
}
