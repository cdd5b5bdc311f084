// Prints the time of the client's `parse` for a page of 100 pets, divided by that of JSON.parse, for usual and for the largest integers.
// JavaScript, and without imports from the rest, because any Node from 20 on has to run it.

// Built by `npm run client`.
const { parse } = await import(new URL("../../client/dist/index.js", import.meta.url).href);

/** Calls between two looks at the clock, about 10 ms. */
const CALLS = 100;
const TURNS = 50;
/** In these, which don't count, the code is compiled. */
const WARM_UP_TURNS = 10;

/** @param {bigint} first */
function page(first) {
  const pets = Array.from({ length: 100 }, (_, index) => {
    const status = ["available", "pending", "sold"][index % 4];
    const rest = status === undefined ? "" : `,"status":"${status}"`;
    return `{"id":${first + BigInt(index)},"name":"Pet ${1_000_000 + index}","categoryId":${first / 7n}${rest}}`;
  });
  return `[${pets}]`;
}

/** @param {(text: string) => unknown} parse @param {string} text */
function timeOf(parse, text) {
  const startMs = performance.now();
  for (let call = 0; call < CALLS; call += 1) parse(text);
  return performance.now() - startMs;
}

/**
 * The median of the turns. In each, both share what changes the machine's speed.
 * @param {string} text
 */
function ratio(text) {
  const turn = () => timeOf(parse, text) / timeOf(JSON.parse, text);
  const ratios = Array.from({ length: WARM_UP_TURNS + TURNS }, turn).slice(WARM_UP_TURNS);
  return ratios.sort((a, b) => a - b)[TURNS / 2];
}

const ratios = { usual: ratio(page(123_456n)), largest: ratio(page(2n ** 63n - 100n)) };
process.stdout.write(JSON.stringify(ratios));
