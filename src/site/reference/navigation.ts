// Deep links to operations and headings, and the mark of the present one in the contents.

import type { System } from "./system.ts";

/** A fragment names a heading, or an operation such as `#/Pets/createPet`, by tag and ID. */
const OPERATION = /^#\/(\w+)\/(\w+)$/;

function elementOf(fragment: string): Element | null {
  return document.getElementById(fragment.slice(1));
}

/**
 * Opens the operation that the fragment of the URL names. Parts of the page are rendered and grow after that, so it scrolls to the
 * element again, until the user acts.
 */
export function followFragment(viewer: Element, { layoutActions }: System): void {
  let target = "";
  const scroll = () => target !== "" && elementOf(target)?.scrollIntoView();
  const follow = () => {
    target = location.hash;
    const [, tag, operation] = target.match(OPERATION) ?? [];
    if (tag !== undefined && operation !== undefined) {
      layoutActions.show(["operations", tag, operation], true);
      // As browsers do for other fragments.
      elementOf(target)?.querySelector("button")?.focus({ preventScroll: true });
    }
    scroll();
  };
  for (const event of ["wheel", "touchmove", "pointerdown", "keydown"])
    addEventListener(event, () => (target = ""), { passive: true });
  addEventListener("hashchange", follow);
  // A link to the fragment that the URL has already.
  addEventListener("click", ({ target: clicked }) => {
    const link = clicked instanceof Element && clicked.closest("a");
    if (link && link.hash !== "" && link.hash === location.hash) follow();
  });
  new ResizeObserver(scroll).observe(viewer);
  follow();
}

/** Marks the entry of the last operation or heading that has reached the top of the window. */
export function markPresent(viewer: Element): void {
  const links = [...document.querySelectorAll<HTMLAnchorElement>(".contents a")];
  const above = new Set<Element | null>();
  const observer = new IntersectionObserver(
    (entries) => {
      for (const { target, intersectionRatio } of entries) {
        if (intersectionRatio < 1) above.add(target);
        else above.delete(target);
      }
      const present = links.findLast(({ hash }) => above.has(elementOf(hash))) ?? links[0];
      for (const link of links) {
        if (link === present) link.setAttribute("aria-current", "location");
        else link.removeAttribute("aria-current");
      }
    },
    // From just below where fragments scroll to, to the end of the page: only what begins above is not wholly inside.
    { rootMargin: "-40px 99999px 999999px", threshold: 1 },
  );
  const observeAll = () => {
    for (const { hash } of links) {
      const element = elementOf(hash);
      if (element !== null) observer.observe(element);
    }
  };
  observeAll();
  // Swagger UI replaces the operations.
  new MutationObserver(observeAll).observe(viewer, { childList: true, subtree: true });
}
