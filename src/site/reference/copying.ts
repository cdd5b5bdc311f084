// Copying. What is shown has the key masked, what is copied has it whole, by a button or by hand. The key never is in the text of the page,
// where extensions and screenshots would find it.

import { PLACEHOLDERS } from "../../samples/samples.ts";
import { problemWithKey, storedKey } from "../key.ts";

const COPIED_MS = 2_000;

/** The key of the tab as samples have it: the placeholder, if it is none. */
export function wholeKey(): string {
  const key = storedKey();
  return problemWithKey(key) === undefined ? key : PLACEHOLDERS.key;
}

/** The same, as it may be shown. */
export function maskedKey(): string {
  const key = wholeKey();
  return key === PLACEHOLDERS.key ? key : `pet_…${key.slice(-4)}`;
}

/** Copies a text, and says so on the button for a while. Without access to the clipboard, selects what is `shown` instead. */
export function copyOnClick(
  button: HTMLElement,
  text: () => string,
  shown: () => HTMLElement | undefined = () => undefined,
): void {
  const name = button.textContent;
  let timer: ReturnType<typeof setTimeout> | undefined;
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text());
      button.textContent = "Copied";
    } catch {
      // Only secure contexts have a clipboard, and users may deny it.
      const place = shown();
      if (place) getSelection()?.selectAllChildren(place);
      button.textContent = place ? "Selected" : "Not copied: the browser denies it";
    }
    clearTimeout(timer);
    timer = setTimeout(() => (button.textContent = name), COPIED_MS);
  });
}

/** Users who select a sample and copy it get the whole key. */
export function copyKeyWhole(): void {
  document.addEventListener("copy", (event) => {
    const text = `${getSelection()}`;
    const mask = maskedKey();
    if (mask === PLACEHOLDERS.key || !text.includes(mask)) return;
    event.preventDefault();
    event.clipboardData?.setData("text/plain", text.replaceAll(mask, wholeKey()));
  });
}
