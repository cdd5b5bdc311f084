// The contents: a filter that finds parts of the page, and the mark of the part that is read.

/** How many parts the filter shows at most. */
const MAX_FOUND = 12;

export function startNavigation(): void {
  const menu = document.querySelector("details.contents") as HTMLDetailsElement;
  const filter = menu.querySelector("input") as HTMLInputElement;
  const found = menu.querySelector(".found") as HTMLElement;
  const all = menu.querySelector(".all") as HTMLElement;
  const parts = [...document.querySelectorAll<HTMLElement>("main :is(h2, h3, dt, tr)[id]")].map(described);
  const search = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const fit = parts.filter(({ name }) => words.every((word) => name.toLowerCase().includes(word)));
    all.hidden = words.length > 0;
    found.hidden = words.length === 0;
    found.replaceChildren(
      ...fit.slice(0, MAX_FOUND).map(({ id, name, place }) => entry(`#${id}`, `${name}${place}`)),
    );
    if (fit.length === 0) found.append("Nothing has this name.");
  };
  filter.addEventListener("input", search);
  // On a phone the menu covers what it leads to.
  menu.addEventListener("click", ({ target }) => {
    if (!(target as Element).closest("a")) return;
    menu.open = false;
    filter.value = "";
    search();
  });
  markPresent([...all.querySelectorAll("a")]);
}

/** The name by which a part is found, and where a part belongs whose name can be another one's as well. */
function described(part: HTMLElement): { id: string; name: string; place: string } {
  const { id, tagName } = part;
  if (tagName === "TR") return { id, name: id, place: " (error)" };
  const title = part.closest("section")?.querySelector("h3");
  if (tagName === "DT") {
    const name = part.querySelector("code")?.textContent ?? "";
    return { id, name, place: ` (${title?.textContent})` };
  }
  const operation = part === title ? part.closest(".operation") : null;
  return { id: operation?.id ?? id, name: part.textContent ?? "", place: "" };
}

function entry(href: string, text: string): HTMLElement {
  const [item, link] = [document.createElement("li"), document.createElement("a")];
  link.href = href;
  link.textContent = text;
  item.append(link);
  return item;
}

/** Marks the entry of the last part that has reached the top of the window. */
function markPresent(links: HTMLAnchorElement[]): void {
  const mark = () => {
    const isAbove = ({ hash }: HTMLAnchorElement) =>
      (document.getElementById(hash.slice(1))?.getBoundingClientRect().top ?? Infinity) < 100;
    const present = links.findLast(isAbove) ?? links[0];
    for (const link of links) {
      if (link === present) link.setAttribute("aria-current", "location");
      else link.removeAttribute("aria-current");
    }
  };
  const markSoon = () => requestAnimationFrame(mark);
  addEventListener("scroll", markSoon, { passive: true });
  markSoon();
}
