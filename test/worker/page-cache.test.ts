// What an isolate keeps of pages, for how long, and how much of it.

import { expect, it } from "vitest";
import { KeptPages, nameOf, PAGES_ARE_KEPT } from "../../src/pets/page-cache.ts";

const page = (petsJson: string) => ({ petsJson, nextCursor: "cursor" });
const lastPage = (petsJson: string) => ({ petsJson, nextCursor: undefined });

it("only a page that has a next page is kept, and not for longer than 30 s", () => {
  expect(PAGES_ARE_KEPT).toBe(true);
  const pages = new KeptPages();
  pages.set("full", page("[1]"), 1_000);
  pages.set("last", lastPage("[2]"), 1_000);
  expect([pages.get("full", 30_999)?.petsJson, pages.get("full", 31_000), pages.get("last", 1_000)]).toEqual([
    "[1]",
    undefined,
    undefined,
  ]);
  // A page from the future is not believed, but it has had a next page.
  expect([pages.get("full", 999), pages.hadNext("full"), pages.hadNext("last")]).toEqual([
    undefined,
    true,
    false,
  ]);
});

it("a page that no longer has a next page is forgotten", () => {
  const pages = new KeptPages();
  pages.set("full", page("[1]"), 1_000);
  pages.set("full", lastPage("[]"), 2_000);
  expect([pages.get("full", 2_000), pages.hadNext("full")]).toEqual([undefined, false]);
});

it("the oldest pages make room for new ones, by their bytes", () => {
  const pages = new KeptPages(10_000);
  const long = page("x".repeat(2_000));
  for (const name of ["a", "b", "c"]) pages.set(name, long, 1_000);
  expect(["a", "b", "c"].map((name) => pages.hadNext(name))).toEqual([false, true, true]);
  // The same page again takes no more room, and is then the newest.
  pages.set("b", long, 1_000);
  pages.set("d", long, 1_000);
  expect(["b", "c", "d"].map((name) => pages.hadNext(name))).toEqual([true, false, true]);
});

it("other queries have other names", () => {
  const names = [
    { limit: 20 },
    { limit: 2 },
    { limit: 20, cursor: 0n },
    { limit: 20, status: "sold" as const },
  ];
  expect(new Set(names.map(nameOf)).size).toBe(4);
});
