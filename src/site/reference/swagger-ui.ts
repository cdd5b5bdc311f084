// The parts of Swagger UI that the reference page uses, and the plugin that changes its components: response bodies keep all digits
// of 64-bit integers, each response has an explanation, and headers are collapsed.

import { canBeSent, MALFORMED_KEY, storedKey } from "../key.ts";
import { errorText, formatInstant, UNREACHABLE } from "../text.ts";

type Component = (props: Record<string, unknown>) => unknown;
type Wrap = (Original: Component, system: System) => Component;

/** Swagger UI has no types of its own. */
export interface System {
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

export interface Plugin {
  components: Record<string, Component>;
  wrapComponents: Record<string, Wrap>;
  statePlugins: object;
}

interface Request {
  pathName: string;
  method: string;
}

/** A response as the component that shows it gets it. */
interface LiveResponse {
  get(name: "status"): number | undefined;
  get(name: "text"): string | undefined;
  getIn(path: ["headers", string]): string | undefined;
}

export const petstorePlugin = (system: System): Plugin => ({
  components: {
    /** The page has its own heading and key field. */
    operationsOnly: () => {
      const operations = system.React.createElement(system.getComponent("operations", true), null);
      return system.React.createElement("div", { className: "swagger-ui" }, operations);
    },
  },
  wrapComponents: { responseBody: exactBody, liveResponse: explainedResponse, headers: collapsedHeaders },
  statePlugins: {
    spec: {
      // The service validates requests, and its messages are better.
      wrapSelectors: { validateBeforeExecute: () => () => true },
      wrapActions: {
        /** Removes the previous response, so that it does not pass for the new one. */
        executeRequest: (execute: (request: Request) => unknown) => (request: Request) => {
          system.specActions.clearResponse(request.pathName, request.method);
          return execute(request);
        },
      },
    },
  },
});

/** The header that carries the key, if there is one. */
export function authorizationHeader(): string | undefined {
  const key = storedKey();
  return key === "" ? undefined : `Bearer ${key}`;
}

/** Swagger UI parses bodies before it shows them, which rounds 64-bit integers. */
const exactBody: Wrap =
  (_, { React }) =>
  ({ content }) =>
    React.createElement(
      "pre",
      { className: "body", tabIndex: 0, "aria-label": "Response body" },
      indented(`${content}`),
    );

/**
 * Adds an explanation to each response. Without a response the explanation stands alone, because Swagger UI would blame CORS.
 * The `curl` command of a response contains the key, so the response is hidden when the key field changes.
 */
const explainedResponse: Wrap =
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
    const original = status === undefined ? null : React.createElement(Original, props);
    return React.createElement("div", null, explanation, original);
  };

const collapsedHeaders: Wrap =
  (Original, { React }) =>
  (props) =>
    React.createElement(
      "details",
      null,
      React.createElement("summary", null, "Headers"),
      React.createElement(Original, props),
    );

/** Calls `listener` whenever the key may have changed. Returns a function that unsubscribes it. */
function onKeyChange(listener: () => void): () => void {
  const events = ["input", "pageshow"];
  for (const each of events) addEventListener(each, listener);
  return () => {
    for (const each of events) removeEventListener(each, listener);
  };
}

/** The outcome of a request, and what remains of the rate limit. */
function explain(response: LiveResponse): string {
  const status = response.get("status");
  if (status === undefined) return canBeSent(storedKey()) ? UNREACHABLE : MALFORMED_KEY;
  const outcome = status < 400 ? "Done." : problem(status, response.get("text") ?? "");
  const [limit, remaining, reset] = ["limit", "remaining", "reset"].map((name) =>
    response.getIn(["headers", `x-ratelimit-${name}`]),
  );
  if (limit === undefined || remaining === undefined || reset === undefined) return outcome;
  return `${outcome} ${remaining} of ${limit} requests left until ${formatInstant(Number(reset))}.`;
}

/** The service's message about a missing key explains headers, which this page sets. */
function problem(status: number, body: string): string {
  return status === 401 && storedKey() === "" ? "Enter an API key above." : errorText(status, body);
}

/** Indents JSON without changing the digits of its numbers. Other texts stay as they are. */
function indented(text: string): string {
  try {
    const exact = (_: string, value: unknown, { source }: { source: string }) =>
      typeof value === "number" ? JSON.rawJSON(source) : value;
    return JSON.stringify(JSON.parse(text, exact), null, 2);
  } catch {
    return text;
  }
}
