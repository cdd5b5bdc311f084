// The plugin that changes components of Swagger UI: operations have links and samples, response bodies keep all digits of 64-bit
// integers, each response has an explanation, and headers are collapsed.

import { storedKey } from "../key.ts";
import { explain, type LiveResponse } from "./explanation.ts";
import { withSamples } from "./sample-tabs.ts";
import { type Component, onInput, type System, type Wrap } from "./system.ts";

export interface Plugin {
  components: Record<string, Component>;
  wrapComponents: Record<string, Wrap>;
  statePlugins: object;
}

interface Request {
  pathName: string;
  method: string;
}

export const petstorePlugin = (system: System): Plugin => ({
  components: {
    /** The page has its own heading and key field. */
    operationsOnly: () => {
      const operations = system.React.createElement(system.getComponent("operations", true), null);
      return system.React.createElement("div", { className: "swagger-ui" }, operations);
    },
    /** Its command would show the key. Each operation has a sample. */
    curl: () => null,
  },
  wrapComponents: {
    OperationSummary: linkedSummary,
    parameters: withSamples,
    responseBody: exactBody,
    liveResponse: explainedResponse,
    headers: collapsedHeaders,
  },
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

const linkedSummary: Wrap =
  (Original, { React }) =>
  (props) => {
    const operation = props.operationProps as { get(name: "tag" | "operationId"): string };
    const name = operation.get("operationId");
    const id = `/${operation.get("tag")}/${name}`;
    const link = { className: "anchor", href: `#${id}`, "aria-label": `Link to ${name}` };
    return React.createElement(
      "div",
      { className: "heading", id },
      React.createElement(Original, props),
      React.createElement("a", link, "#"),
    );
  };

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
 * A response may be meant for the owner of its key only, so it is hidden when the key field changes.
 */
const explainedResponse: Wrap =
  (Original, { React, specSelectors }) =>
  (props) => {
    const authorization = React.useSyncExternalStore(onInput, authorizationHeader);
    const request = specSelectors.mutatedRequestFor(props.path, props.method);
    if (request.getIn(["headers", "Authorization"]) !== authorization) return null;
    const response = props.response as LiveResponse;
    const { hasFailed, outcome, hint } = explain(response);
    const explanation = React.createElement(
      "div",
      { className: hasFailed ? "explanation failed" : "explanation", role: "status" },
      React.createElement("p", { className: "outcome" }, outcome),
      hint && React.createElement("p", { className: "hint" }, ...markdownCode(hint, React)),
    );
    const hasStatus = response.get("status") !== undefined;
    return React.createElement("div", null, explanation, hasStatus && React.createElement(Original, props));
  };

/** Markdown of which only code is marked up. */
function markdownCode(text: string, { createElement }: System["React"]): unknown[] {
  return text.split("`").map((part, index) => (index % 2 === 1 ? createElement("code", null, part) : part));
}

const collapsedHeaders: Wrap =
  (Original, { React }) =>
  (props) =>
    React.createElement(
      "details",
      null,
      React.createElement("summary", null, "Headers"),
      React.createElement(Original, props),
    );

/** Indents JSON without changing the digits of its numbers. Other texts stay as they are. */
function indented(text: string): string {
  try {
    const exact = (_: string, value: unknown, { source = "" }: { source?: string }) =>
      typeof value === "number" ? JSON.rawJSON(source) : value;
    return JSON.stringify(JSON.parse(text, exact), null, 2);
  } catch {
    return text;
  }
}
