// Copying. What is shown has the key masked, what is copied has it whole, by a button or by hand. The key never is in the text of the page,
// where extensions and screenshots would find it.

import { PLACEHOLDERS } from "../../samples/samples.ts";
import { problemWithKey, storedKey } from "../key.ts";

/** A key as it may be shown; the placeholder of the samples for what is not a key. */
export function maskedKey(key: string): string {
  return problemWithKey(key) === undefined ? `pet_…${key.slice(-4)}` : PLACEHOLDERS.key;
}

/** Copies a text, and says so on the button for a while. Without access to the clipboard, selects what is `shown` instead. */
export function copyOnClick(
  button: HTMLElement,
  text: () => string,
  shown: () => HTMLElement | undefined = () => undefined,
): void {
  const name = button.textContent;
  button.addEventListener("blur", () => (button.textContent = name));
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
  });
}

/** Users who select a sample and copy it get the whole key. */
export function keepKeyMasked(sample: HTMLElement): void {
  sample.addEventListener("copy", (event) => {
    const key = storedKey();
    const mask = maskedKey(key);
    if (mask === PLACEHOLDERS.key) return;
    event.preventDefault();
    event.clipboardData?.setData("text/plain", `${getSelection()}`.replaceAll(mask, key));
  });
}
