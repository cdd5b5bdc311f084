// The console of an operation: a form whose samples show what is filled in, and which sends it. Nothing is sent that the form knows to be
// wrong, and each way out of a request leads back to a form that can be sent.

import { HEADER } from "../../http/header-names.ts";
import { type Input, type Operation, problemWith, requestOf, type Values } from "../../samples/operation.ts";
import { LANGUAGES, type Language, sampleOf } from "../../samples/samples.ts";
import { problemWithKey, storedKey, storeKey } from "../key.ts";
import { SessionText } from "../session-text.ts";
import { errorIn } from "../text.ts";
import { copyKeyWhole, copyOnClick, maskedKey, wholeKey } from "./copying.ts";
import { type Explanation, explain, explainFailure } from "./explanation.ts";

/** The build defines both, from the document: scripts/build.ts. Remedies are Markdown, by error code. */
declare const OPERATIONS: Operation[];
declare const REMEDIES: Record<string, string>;

const TIMEOUT_MS = 30_000;

/** More of a response is not shown, because the browser would stand still. The service's have at most a third of it. */
const MAX_SHOWN = 1_000_000;

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
  copyKeyWhole();
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
  /** The latest Idempotency-Key that was not typed, and whether a pet has it. */
  #token = "";
  #isTokenUsed = false;

  constructor(operation: Operation) {
    this.#operation = operation;
    this.#form = document.querySelector(`#console-${operation.id}`) as HTMLFormElement;
    this.#samples = [...this.#form.querySelectorAll<HTMLElement>(".sample")];
    this.#form.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.#submit();
    });
    this.#form.addEventListener("input", ({ target }) => this.#edited(target as Field));
    this.#part(".stop").addEventListener("click", () => this.#underway?.abort());
    this.#part(".next").addEventListener("click", () => {
      this.#field("cursor").value = this.#cursor;
      void this.#submit();
    });
    const shown = () => this.#samples.find(({ dataset }) => dataset.language === language());
    copyOnClick(this.#part(".copy"), () => this.#sample(language(), wholeKey()), shown);
    copyOnClick(this.#part(".copy-curl"), () => this.#sent);
    copyOnClick(
      this.#part(".copy-body"),
      () => this.#body,
      () => this.#part(".body"),
    );
    // What was typed before this script ran.
    const typed = this.#field("key").value;
    if (typed !== "") storeKey(typed);
    this.#renewToken();
    this.#send.disabled = false;
  }

  /** Shows what is filled in. The answer to another key is hidden. */
  update(): void {
    const key = storedKey();
    const field = this.#field("key");
    if (document.activeElement !== field) field.value = key;
    for (const choice of this.#form.querySelectorAll<HTMLInputElement>("[name=language]"))
      choice.checked = choice.value === language();
    for (const sample of this.#samples)
      sample.textContent = this.#sample(sample.dataset.language as Language, maskedKey());
    if (key === this.#key) return;
    this.#key = key;
    this.#complain("key", "");
    this.#underway?.abort();
    if (!this.#part(".answer").hidden) this.#say({ outcome: "" });
  }

  #edited({ name, value }: Field): void {
    if (name === "language") {
      storedLanguage.write(value);
      return;
    }
    if (name === "key") storeKey(value);
    // With the key of the last pet, the service would refuse another one.
    const isOfPet = this.#operation.inputs.some((input) => input.name === name && input.place === "body");
    if (isOfPet && this.#isTokenUsed) this.#renewToken();
    this.#complain(name, "");
  }

  async #submit(): Promise<void> {
    if (this.#underway !== undefined) return;
    this.update();
    this.#say({ outcome: "" });
    if (this.#hasProblem()) return;
    const focused = document.activeElement;
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
      this.#isTokenUsed = response.ok && request.headers[HEADER.idempotencyKey] === this.#token;
    } catch {
      this.#say(
        explainFailure({
          isLate: late.aborted,
          isStopped: underway.signal.aborted,
          isOnline: navigator.onLine,
          writes: request.body !== undefined,
          isRepeatable: HEADER.idempotencyKey in request.headers,
        }),
      );
    }
    const isStillHere = [focused, this.#part(".stop"), document.body].includes(document.activeElement);
    this.#underway = undefined;
    this.#part(".stop").hidden = true;
    // Not if the user has gone on to something else.
    if (!isStillHere) return;
    const answer = this.#part(".answer");
    answer.scrollIntoView({ block: "nearest" });
    (answer.hidden ? this.#send : this.#part(".body")).focus({ preventScroll: true });
  }

  /** Says beside each wrong field what is wrong, and moves to the first one. */
  #hasProblem(): boolean {
    const problems = new Map([["key", problemWithKey(storedKey()) ?? ""]]);
    for (const input of this.#operation.inputs) problems.set(input.name, this.#problemWith(input));
    for (const [name, problem] of problems) this.#complain(name, problem);
    const [wrong] = [...problems].find(([, problem]) => problem !== "") ?? [];
    if (wrong !== undefined) this.#field(wrong).focus();
    return wrong !== undefined;
  }

  #problemWith(input: Input): string {
    return problemWith(input, this.#field(input.name).value);
  }

  /** An empty problem is none. */
  #complain(name: string, problem: string): void {
    const field = this.#field(name);
    field.setAttribute("aria-invalid", `${problem !== ""}`);
    const place = field.parentElement?.nextElementSibling;
    if (place) place.textContent = problem;
  }

  #answer(response: Response, text: string): void {
    const body = text.slice(0, MAX_SHOWN);
    this.#body = indented(body);
    this.#say(explain(response, body, this.#operation.success, REMEDIES));
    // The service names the field that it refuses.
    const [, name, problem = ""] = `${errorIn(body).message}`.match(/^([\w-]+): (.*)/) ?? [];
    if (this.#operation.inputs.some((input) => input.name === name)) this.#complain(name ?? "", problem);
    this.#cursor = response.headers.get("Link")?.match(/[?&]cursor=([^&>]+)[^>]*>; rel="next"/)?.[1] ?? "";
    this.#part(".next").hidden = this.#cursor === "";
    this.#part(".body").textContent = this.#body;
    this.#part(".headers").textContent = [...response.headers].map((pair) => pair.join(": ")).join("\n");
    this.#part(".answer").hidden = false;
  }

  /** Shows an outcome, which is also announced, instead of the answer. The example is there until the first one. */
  #say({ outcome, hint = "" }: Explanation): void {
    this.#part(".answer").hidden = true;
    this.#part(".example").hidden = outcome !== "";
    const place = this.#part(".outcome");
    place.classList.toggle("failed", hint !== "");
    place.replaceChildren(paragraph(outcome), paragraph(hint));
  }

  /** Each pet has an Idempotency-Key of its own, so that sending it again is safe. One that the user has typed stays. */
  #renewToken(): void {
    this.#isTokenUsed = false;
    const hasKey = this.#operation.inputs.some(({ name }) => name === HEADER.idempotencyKey);
    const field = hasKey ? this.#field(HEADER.idempotencyKey) : undefined;
    if (field?.value !== this.#token) return;
    this.#token = randomToken();
    field.value = this.#token;
  }

  #values(): Values {
    return Object.fromEntries(this.#operation.inputs.map(({ name }) => [name, this.#field(name).value]));
  }

  /** With what is filled in, unless it is wrong. */
  #sample(of: Language, key: string): string {
    const values = this.#values();
    for (const input of this.#operation.inputs)
      if (this.#problemWith(input) !== "") delete values[input.name];
    return sampleOf(this.#operation, of, { origin: location.origin, key }, values);
  }

  get #send(): HTMLButtonElement {
    return this.#part<HTMLButtonElement>(".send");
  }

  #field(name: string): Field {
    return this.#form.elements.namedItem(name) as Field;
  }

  #part<Part extends HTMLElement>(selector: string): Part {
    return this.#form.querySelector(selector) as Part;
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
