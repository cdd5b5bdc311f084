// The reference page: shows the operations with Swagger UI, which lets people try them, and mends what it does not do by
// itself: numbers keep their digits, answers are explained in a sentence, and a screen reader finds a name on everything.
// The page is readable without all this, and stays so when something can't be loaded.

import { canBeSent, NO_KEY, storedKey, storeKey } from "./key.ts";
import { instant, NO_ANSWER, sentenceOf } from "./usage/sentences.ts";

type Component = (props: Record<string, unknown>) => unknown;

interface System {
  React: {
    createElement(type: string | Component, props: object | null, ...children: unknown[]): unknown;
    useSyncExternalStore<Value>(subscribe: (listener: () => void) => () => void, read: () => Value): Value;
  };
  getComponent(name: string, container: boolean): Component;
  layoutActions: { show(part: string[], isShown: boolean): void; scrollTo(part: string[]): void };
  specActions: { clearResponse(path: string, method: string): void };
  specSelectors: {
    mutatedRequestFor(path: unknown, method: unknown): { getIn(path: string[]): string | undefined };
  };
}

type Wrap = (Original: Component, system: System) => Component;

/** What this page uses of Swagger UI, which has no types of its own. */
declare const SwaggerUIBundle: (options: {
  spec: object;
  dom_id: string;
  layout: string;
  plugins: ((system: System) => {
    components: Record<string, Component>;
    wrapComponents: Record<string, Wrap>;
    statePlugins: object;
  })[];
  requestInterceptor(request: { headers: Record<string, string> }): object;
  responseInterceptor(response: { headers: Record<string, string | string[]> }): object;
  [option: string]: unknown;
}) => System;

/** The answer to a request that was tried, as Swagger UI hands it to the component that shows it. */
interface LiveResponse {
  get(name: "status"): number | undefined;
  get(name: "text"): string | undefined;
  getIn(path: ["headers", string]): string | undefined;
}

/** Swagger UI parses a body before it shows it, which rounds integers of 64 bits. */
const exactBody: Wrap =
  (_, { React }) =>
  ({ content }) =>
    React.createElement(
      "pre",
      { className: "body", tabIndex: 0, "aria-label": "Response body" },
      indented(`${content}`),
    );

/**
 * A sentence on top of each answer; where there is none, it stands alone, because Swagger UI suspects CORS. An answer is
 * hidden while the field has another key than it was sent with, because its `curl` line shows that key.
 */
const explainedAnswer: Wrap =
  (Original, { React, specSelectors }) =>
  (props) => {
    const authorization = React.useSyncExternalStore(onKeyChange, authorizationHeader);
    const request = specSelectors.mutatedRequestFor(props.path, props.method);
    if (request.getIn(["headers", "Authorization"]) !== authorization) return null;
    const response = props.response as LiveResponse;
    const status = response.get("status");
    const hasFailed = status === undefined || status >= 400;
    const explanation = React.createElement(
      "p",
      { className: hasFailed ? "explanation failed" : "explanation", role: "status" },
      explain(response),
    );
    const answer = status === undefined ? null : React.createElement(Original, props);
    return React.createElement("div", null, explanation, answer);
  };

/** The headers of each response are many, and mostly the same. */
const foldedHeaders: Wrap =
  (Original, { React }) =>
  (props) =>
    React.createElement(
      "details",
      null,
      React.createElement("summary", null, "Headers"),
      React.createElement(Original, props),
    );

const petstore = (system: System) => ({
  components: {
    /** Heading, servers and authorization are the page's own. */
    operationsOnly: () => {
      const operations = system.React.createElement(system.getComponent("operations", true), null);
      return system.React.createElement("div", { className: "swagger-ui" }, operations);
    },
  },
  wrapComponents: { responseBody: exactBody, liveResponse: explainedAnswer, headers: foldedHeaders },
  statePlugins: {
    spec: {
      // What is wrong with a request the service says best, and it is no use to hear it from anybody else.
      wrapSelectors: { validateBeforeExecute: () => () => true },
      wrapActions: {
        /** Takes the answer before away, so that it does not stand for this one. */
        executeRequest: (execute: (request: Request) => unknown) => (request: Request) => {
          system.specActions.clearResponse(request.pathName, request.method);
          return execute(request);
        },
      },
    },
  },
});

/** A request, as Swagger UI hands it to what sends it. */
interface Request {
  pathName: string;
  method: string;
}

followColorScheme();
nameOrigin();
keepKey();
await showOperations();

function keepKey(): void {
  const field = document.querySelector<HTMLInputElement>("#key");
  if (field === null) return;
  const fill = () => (field.value = storedKey());
  fill();
  // Whoever comes back to this page may have put another key into another one.
  addEventListener("pageshow", fill);
  field.addEventListener("input", () => storeKey(field.value));
  document.querySelector("#key-form")?.addEventListener("submit", (event) => event.preventDefault());
}

/** The header that carries the key, if there is one. */
function authorizationHeader(): string | undefined {
  const key = storedKey();
  return key === "" ? undefined : `Bearer ${key}`;
}

/** Calls `listener` whenever there may be another key, until the function that it returns is called. */
function onKeyChange(listener: () => void): () => void {
  const events = ["input", "pageshow"];
  for (const each of events) addEventListener(each, listener);
  return () => {
    for (const each of events) removeEventListener(each, listener);
  };
}

/** Has the examples of the guide name this service, so that they can be pasted. */
function nameOrigin(): void {
  for (const code of document.querySelectorAll(".guide code")) {
    code.textContent = code.textContent?.replaceAll("https://petstore.example", location.origin) ?? "";
  }
}

async function showOperations(): Promise<void> {
  const problem = document.querySelector<HTMLElement>("#viewer-problem");
  try {
    const spec = await (await fetch("/openapi.json", { signal: AbortSignal.timeout(10_000) })).json();
    // The guide is on the page already.
    delete spec.info.description;
    // Swagger UI would send the example of a parameter as if the user had typed it.
    const operations = Object.values<object>(spec.paths).flatMap((path) => Object.values(path));
    for (const { parameters = [] } of operations) {
      for (const parameter of parameters) delete parameter.example;
    }
    const viewer = SwaggerUIBundle({
      spec,
      dom_id: "#viewer",
      layout: "operationsOnly",
      plugins: [petstore],
      tryItOutEnabled: true,
      syntaxHighlight: { activated: false },
      validatorUrl: null,
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
    nameControls();
    followAddress(viewer);
  } catch {
    if (problem === null) return;
    problem.textContent = "The console can't be loaded. Look at your connection, and load the page again.";
    problem.hidden = false;
  }
}

/** What an answer says, and how the key stands after it. */
function explain(response: LiveResponse): string {
  const status = response.get("status");
  if (status === undefined) return canBeSent(storedKey()) ? NO_ANSWER : NO_KEY;
  const outcome = status < 400 ? "Done." : failureSentence(status, response.get("text") ?? "");
  const [limit, remaining, reset] = ["limit", "remaining", "reset"].map((name) =>
    response.getIn(["headers", `x-ratelimit-${name}`]),
  );
  if (limit === undefined || remaining === undefined || reset === undefined) return outcome;
  return `${outcome} ${remaining} of ${limit} requests left until ${instant(Number(reset))}.`;
}

/** What went wrong. The service's own sentence about a missing key is for those who send headers. */
function failureSentence(status: number, body: string): string {
  return status === 401 && storedKey() === ""
    ? "There is no API key yet: paste it above."
    : sentenceOf(status, body);
}

/** Opens the operation that the address names, as in `#/Pets/createPet`. */
function followAddress({ layoutActions }: System): void {
  const follow = () => {
    const [, tag, operation] = location.hash.match(/^#\/(\w+)\/(\w+)$/) ?? [];
    if (tag === undefined || operation === undefined) return;
    const part = ["operations", tag, operation];
    layoutActions.show(part, true);
    const drawn = document.getElementById(part.join("-"));
    if (drawn === null) layoutActions.scrollTo(part);
    else drawn.scrollIntoView();
  };
  addEventListener("hashchange", follow);
  follow();
}

/** JSON, indented; a number keeps the digits that it came with. Whatever can't be read so stays as it is. */
function indented(text: string): string {
  try {
    const exact = (_: string, value: unknown, { source }: { source: string }) =>
      typeof value === "number" ? JSON.rawJSON(source) : value;
    return JSON.stringify(JSON.parse(text, exact), null, 2);
  } catch {
    return text;
  }
}

/** Swagger UI goes dark by a class. */
function followColorScheme(): void {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const follow = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
  dark.addEventListener("change", follow);
  follow();
}

/** Gives a name to the controls that Swagger UI leaves without one, whenever it has drawn some. */
function nameControls(): void {
  const viewer = document.querySelector("#viewer");
  if (viewer === null) return;
  const name = (selector: string, label: (control: Element) => string) => {
    for (const control of viewer.querySelectorAll(selector)) {
      if (!control.hasAttribute("aria-label")) control.setAttribute("aria-label", label(control));
    }
  };
  const nameAll = () => {
    name(".examples-select-element", () => "Example");
    name("textarea", () => "Request body");
    name("[data-param-name] select, [data-param-name] input", (control) => {
      return control.closest("[data-param-name]")?.getAttribute("data-param-name") ?? "Parameter";
    });
  };
  new MutationObserver(nameAll).observe(viewer, { childList: true, subtree: true });
}
