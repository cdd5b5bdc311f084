// The contents: a filter that finds parts of the page, and the mark of the part that is read.

/** How many parts the filter shows at most. */
const MAX_FOUND = 20;

export function startNavigation(): void {
  const menu = document.querySelector("details.contents") as HTMLDetailsElement;
  const filter = menu.querySelector("input") as HTMLInputElement;
  const found = menu.querySelector(".found") as HTMLElement;
  const count = menu.querySelector("[role=status]") as HTMLElement;
  const all = menu.querySelector(".all") as HTMLElement;
  const parts = [...document.querySelectorAll<HTMLElement>("main :is(h2, h3, dt, tr)[id]")].map(described);
  const search = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const has = (text: string) => words.every((word) => text.toLowerCase().includes(word));
    const named = parts.filter(({ name }) => has(name));
    const others = parts.filter(({ name, text }) => !has(name) && has(text));
    const isEmpty = words.length === 0;
    all.hidden = !isEmpty;
    const shown = isEmpty ? [] : [...named, ...others];
    found.replaceChildren(...shown.slice(0, MAX_FOUND).map(({ id, title }) => entry(`#${id}`, title)));
    count.textContent = isEmpty ? "" : `${shown.length} found`;
  };
  filter.addEventListener("input", search);
  filter.addEventListener("keydown", ({ key }) => key === "Enter" && found.querySelector("a")?.click());
  // On a phone the menu covers what it leads to.
  menu.addEventListener("click", ({ target }) => {
    if (!(target as Element).closest("a")) return;
    menu.open = false;
    filter.value = "";
    search();
  });
  markPresent([...all.querySelectorAll("a")]);
}

/** The name and the text by which a part is found, and its title, with its place if the name can be another one's as well. */
function described(part: HTMLElement): { id: string; name: string; text: string; title: string } {
  const { id, tagName } = part;
  if (tagName === "TR") return { id, name: id, text: "", title: `${id} (error)` };
  const section = part.closest("section");
  const heading = section?.querySelector("h2, h3");
  if (tagName === "DT") {
    const name = part.querySelector("code")?.textContent ?? "";
    return { id, name, text: "", title: `${name} (${heading?.textContent})` };
  }
  const name = part.textContent ?? "";
  const operation = part === heading ? part.closest(".operation") : null;
  return { id: operation?.id ?? id, name, text: section?.textContent ?? "", title: name };
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
