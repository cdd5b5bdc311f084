// The console of an operation: a form whose samples show what is filled in, and which sends it. Nothing is sent that the form knows to be
// wrong, and each way out of a request leads back to a form that can be sent.

import { HEADER } from "../../http/header-names.ts";
import { type Operation, problemWith, requestOf, type Values } from "../../samples/operation.ts";
import { LANGUAGES, type Language, sampleOf } from "../../samples/samples.ts";
import { problemWithKey, storedKey, storeKey } from "../key.ts";
import { SessionText } from "../session-text.ts";
import { copyOnClick, keepKeyMasked, maskedKey } from "./copying.ts";
import { type Explanation, explain, explainFailure } from "./explanation.ts";

/** The build defines both, from the document: scripts/build.ts. Remedies are Markdown, by error code. */
declare const OPERATIONS: Operation[];
declare const REMEDIES: Record<string, string>;

const TIMEOUT_MS = 30_000;

const storedLanguage = new SessionText("petstore-sample-language");

type Field = HTMLInputElement | HTMLSelectElement;

/** Makes the forms of all operations work. They share the key and the language. */
export function startConsoles(): void {
  const consoles = OPERATIONS.map((operation) => new Console(operation));
  const updateAll = () => {
    for (const each of consoles) each.update();
  };
  addEventListener("input", updateAll);
  // The key may have changed on another page before the user came back.
  addEventListener("pageshow", updateAll);
  updateAll();
}

class Console {
  readonly #operation: Operation;
  readonly #form: HTMLFormElement;
  readonly #samples: HTMLElement[];
  /** Ends the request under way. */
  #underway: AbortController | undefined;
  /** The key of what is shown, which may be meant for its owner only. */
  #key = "";
  /** The latest request as a program, and what its response has. */
  #sent = "";
  #body = "";
  #cursor = "";

  constructor(operation: Operation) {
    this.#operation = operation;
    this.#form = document.querySelector(`#console-${operation.id}`) as HTMLFormElement;
    this.#samples = [...this.#form.querySelectorAll<HTMLElement>(".sample")];
    this.#form.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.#submit();
    });
    this.#form.addEventListener("input", ({ target }) => this.#edited(target as Field));
    this.#onClick(".stop", () => this.#underway?.abort());
    this.#onClick(".next", () => {
      this.#field("cursor").value = this.#cursor;
      void this.#submit();
    });
    for (const sample of this.#samples) keepKeyMasked(sample);
    const shown = () => this.#samples.find(({ dataset }) => dataset.language === language());
    copyOnClick(this.#part(".copy"), () => this.#sample(language(), storedKey()), shown);
    copyOnClick(this.#part(".copy-curl"), () => this.#sent);
    copyOnClick(
      this.#part(".copy-body"),
      () => this.#body,
      () => this.#part(".body"),
    );
    this.#renewIdempotencyKey();
  }

  /** Shows what is filled in, and hides the answer to another key. */
  update(): void {
    const key = storedKey();
    const field = this.#field("key");
    if (document.activeElement !== field) field.value = key;
    for (const choice of this.#form.querySelectorAll<HTMLInputElement>("[name=language]"))
      choice.checked = choice.value === language();
    for (const sample of this.#samples)
      sample.textContent = this.#sample(sample.dataset.language as Language, maskedKey(key));
    if (key === this.#key) return;
    this.#key = key;
    this.#rest();
    this.#say({ outcome: "" });
  }

  #edited(field: Field): void {
    if (field.name === "language") storedLanguage.write(field.value);
    else {
      if (field.name === "key") storeKey(field.value);
      this.#complain(field.name, "");
    }
  }

  async #submit(): Promise<void> {
    if (this.#underway !== undefined || this.#hasProblem()) return;
    const key = storedKey();
    const { url, ...request } = requestOf(this.#operation, location.origin, this.#values());
    const underway = new AbortController();
    const late = AbortSignal.timeout(TIMEOUT_MS);
    this.#underway = underway;
    this.#sent = this.#sample("curl", key);
    this.#part(".stop").hidden = false;
    this.#say({ outcome: "Waiting for the response…" });
    try {
      const headers = { ...request.headers, Authorization: `Bearer ${key}` };
      const signal = AbortSignal.any([underway.signal, late]);
      const response = await fetch(url, { ...request, headers, signal });
      this.#answer(response, await response.text());
      if (response.ok) this.#renewIdempotencyKey();
    } catch {
      // Otherwise another key has been entered meanwhile.
      if (this.#underway === underway)
        this.#say(
          explainFailure({
            isLate: late.aborted,
            isStopped: underway.signal.aborted,
            isOnline: navigator.onLine,
            writes: request.body !== undefined,
          }),
        );
    }
    if (this.#underway === underway) this.#rest();
    this.#part(".outcome").focus();
  }

  /** Ends what is under way. */
  #rest(): void {
    const underway = this.#underway;
    this.#underway = undefined;
    underway?.abort();
    this.#part(".stop").hidden = true;
  }

  /** Says beside each wrong field what is wrong, and moves to the first one. */
  #hasProblem(): boolean {
    const values = this.#values();
    const problems = new Map([["key", problemWithKey(storedKey()) ?? ""]]);
    for (const input of this.#operation.inputs)
      problems.set(input.name, problemWith(input, values[input.name] ?? ""));
    for (const [name, problem] of problems) this.#complain(name, problem);
    const [wrong] = [...problems].find(([, problem]) => problem !== "") ?? [];
    if (wrong !== undefined) this.#field(wrong).focus();
    return wrong !== undefined;
  }

  #complain(name: string, problem: string): void {
    const field = this.#field(name);
    field.setAttribute("aria-invalid", `${problem !== ""}`);
    const place = field.parentElement?.nextElementSibling;
    if (place?.className === "wrong") place.textContent = problem;
  }

  #answer(response: Response, body: string): void {
    this.#body = indented(body);
    this.#say(explain(response, body, this.#operation.success, REMEDIES));
    const [, next = ""] = response.headers.get("Link")?.match(/<([^>]*)>; rel="next"/) ?? [];
    this.#cursor = (next && new URL(next, location.origin).searchParams.get("cursor")) || "";
    this.#part(".next").hidden = this.#cursor === "";
    this.#part(".body").textContent = this.#body;
    this.#part(".headers").textContent = [...response.headers].map((pair) => pair.join(": ")).join("\n");
    this.#part(".answer").hidden = false;
    this.#part(".example").hidden = true;
    this.#part(".answer").scrollIntoView({ block: "nearest" });
  }

  /** Shows an outcome, which is also announced, instead of the answer. */
  #say({ outcome, hint = "" }: Explanation): void {
    this.#part(".answer").hidden = true;
    const place = this.#part(".outcome");
    place.classList.toggle("failed", hint !== "");
    place.replaceChildren(paragraph(outcome), paragraph(hint));
  }

  /** A new one for each pet. After a failure it stays, so that sending the pet again is safe. */
  #renewIdempotencyKey(): void {
    if (this.#operation.inputs.some(({ name }) => name === HEADER.idempotencyKey))
      this.#field(HEADER.idempotencyKey).value = randomToken();
  }

  #values(): Values {
    return Object.fromEntries(this.#operation.inputs.map(({ name }) => [name, this.#field(name).value]));
  }

  #sample(of: Language, key: string): string {
    return sampleOf(this.#operation, of, { origin: location.origin, key }, this.#values());
  }

  #field(name: string): Field {
    return this.#form.elements.namedItem(name) as Field;
  }

  #part(selector: string): HTMLElement {
    return this.#form.querySelector(selector) as HTMLElement;
  }

  #onClick(selector: string, act: () => void): void {
    this.#part(selector).addEventListener("click", act);
  }
}

function language(): Language {
  return LANGUAGES.find((each) => each === storedLanguage.read()) ?? "curl";
}

/** Markdown of which only code is marked up. */
function paragraph(markdown: string): HTMLElement {
  const all = document.createElement("p");
  const parts = markdown.split("`").map((text, index) => {
    if (index % 2 === 0) return text;
    const code = document.createElement("code");
    code.textContent = text;
    return code;
  });
  all.append(...parts);
  return all;
}

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

/** crypto.randomUUID is missing on pages that are served over HTTP by another host than this machine. */
function randomToken(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))]
    .map((each) => each.toString(16).padStart(2, "0"))
    .join("");
}
