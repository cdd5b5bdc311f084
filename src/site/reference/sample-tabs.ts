// The samples of an operation: a choice of languages, with the reader's address and key. What is shown has the key masked, what
// is copied has it whole, by the button or by hand. The key never is in the DOM, where extensions and screenshots would find it.

import { storedKey } from "../key.ts";
import { SessionText } from "../session-text.ts";
import { fillSample } from "./sample.ts";
import { maskedKey, originOf } from "./sample-values.ts";
import { onInput, type Wrap } from "./system.ts";

interface Sample {
  label: string;
  source: string;
}

interface Operation {
  get(name: "operationId"): string;
  get(name: "x-codeSamples"): { toJS(): Sample[] };
}

export const storedAddress = new SessionText("petstore-sample-address");
const storedLanguage = new SessionText("petstore-sample-language");

/** Adds the samples above the parameters of each operation. */
export const withSamples: Wrap =
  (Original, { React }) =>
  (props) => {
    const language = React.useSyncExternalStore(onInput, () => storedLanguage.read());
    const address = React.useSyncExternalStore(onInput, () => storedAddress.read());
    const key = React.useSyncExternalStore(onInput, storedKey);
    const [status, setStatus] = React.useState("");
    const operation = props.operation as Operation;
    const samples = operation.get("x-codeSamples").toJS();
    const sample = samples.find(({ label }) => label === language) ?? samples[0];
    if (sample === undefined) return null;

    const { origin } = location;
    const mask = maskedKey(key);
    const fillIn = (text: string) =>
      fillSample(sample.source, { origin: originOf(address) ?? origin, key: text });
    const id = `sample-${operation.get("operationId")}`;

    const copy = async (event: Event) => {
      const code = (event.currentTarget as Element).closest(".sample")?.querySelector("pre");
      setStatus("");
      try {
        await navigator.clipboard.writeText(fillIn(mask && key));
        setStatus("Copied");
      } catch {
        // Only secure contexts have a clipboard, and users may deny it.
        if (code) getSelection()?.selectAllChildren(code);
        setStatus("Selected");
      }
    };
    /** The user copies by hand. */
    const copySelection = (event: ClipboardEvent) => {
      if (mask === "") return;
      event.preventDefault();
      event.clipboardData?.setData("text/plain", `${getSelection()}`.replaceAll(mask, key));
    };

    const choices = samples.map((each) => {
      const onChange = () => {
        storedLanguage.write(each.label);
        setStatus("");
        // The samples of the other operations follow.
        dispatchEvent(new Event("input"));
      };
      const radio = { type: "radio", name: `${id}-language`, checked: each === sample, onChange };
      return React.createElement(
        "label",
        { key: each.label },
        React.createElement("input", radio),
        each.label,
      );
    });
    const list = { role: "radiogroup", "aria-label": "Language of the sample" };
    const button = { type: "button", className: "copy", onClick: copy, onBlur: () => setStatus("") };
    const group = { role: "group", "aria-label": `${sample.label} sample`, tabIndex: 0 };
    const bar = React.createElement(
      "div",
      { className: "sample-bar" },
      React.createElement("div", list, ...choices),
      React.createElement("span", { role: "status" }, status),
      React.createElement("button", button, status || "Copy"),
    );
    // Every second part is a comment.
    const parts = fillIn(mask).split(/((?:#|\/\/) .*)/);
    const lines = parts.map((part, index) => (index % 2 ? React.createElement("i", null, part) : part));
    const code = React.createElement("pre", { id, ...group, onCopy: copySelection }, ...lines);
    return React.createElement(
      React.Fragment,
      null,
      React.createElement("div", { className: "sample" }, bar, code),
      React.createElement(Original, props),
    );
  };
