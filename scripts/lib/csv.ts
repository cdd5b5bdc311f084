// CSV as RFC 4180 defines it, in UTF-8, and as spreadsheets write it: with semicolons or tabs between fields, blanks around them, lines of
// empty fields, and a first line such as "sep=;". A field with a line break is refused.

/** The fields of a line, or what is wrong with it. */
export type CsvLine = { number: number } & ({ fields: string[] } | { problem: string });

/** What can be between fields, by its name. */
const SEPARATORS = { commas: ",", semicolons: ";", tabs: "\t" };

type Separator = keyof typeof SEPARATORS;

/** For Excel, which does not guess the separator. */
const DECLARATION = /^sep=[,;\t]\s*$/i;
/** A line that begins or ends no quotes. */
const EVEN = /^(?:[^"]|"")*$/;
/** In which the end of a field with line breaks is looked for. */
const MAX_FIELD_LINES = 100;

/** The lines of a file that are not empty, and what separates their fields: the separator that is most frequent in the first one. Throws if it is not UTF-8. */
export function parseCsv(file: Uint8Array): { lines: CsvLine[]; separator: Separator | undefined } {
  // Without the byte order mark, which Excel writes.
  const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(file);
  const all = text.split(/\r\n|\n|\r/).map((line, index) => ({ line, number: index + 1 }));
  const separator = separatorOf(all.find(({ line }) => line.trim() !== "")?.line ?? "");
  const parse = lineParser(SEPARATORS[separator ?? "commas"]);
  let begin = DECLARATION.test(all[0]?.line ?? "") ? 2 : 1;
  const lines = all.flatMap(({ line, number }): CsvLine[] => {
    if (number < begin) return [];
    const parsed = parse(line);
    if (!("rest" in parsed)) return [{ number, ...parsed }];
    const { field, rest } = parsed;
    const end = all.slice(number, number + MAX_FIELD_LINES).find((each) => !EVEN.test(each.line));
    const isBroken = end !== undefined && "fields" in parse(`${rest}\n${end.line}`);
    if (isBroken) begin = end.number + 1;
    const problem = isBroken ? `a line break: it ends in line ${end.number}` : "a quote in the wrong place";
    return [{ number, problem: `field ${field} has ${problem}` }];
  });
  return { lines: lines.filter((line) => "problem" in line || line.fields.some(Boolean)), separator };
}

function separatorOf(line: string): Separator | undefined {
  const unquoted = line.replace(/"[^"]*"/g, "");
  const counts = Object.entries(SEPARATORS).map(([name, separator]) => ({
    name: name as Separator,
    count: unquoted.split(separator).length - 1,
  }));
  const [most] = counts.sort((a, b) => b.count - a.count);
  return most?.count ? most.name : undefined;
}

function lineParser(separator: string) {
  const blanks = separator === "\t" ? " *" : "\\s*";
  const quoted = new RegExp(`^${blanks}"((?:[^"]|"")*)"${blanks}(?:${separator}|$)`);
  const plain = new RegExp(`^([^"${separator}]*)(?:${separator}|$)`);
  /** The fields of a line, or the first that is wrong, and its text. */
  return (line: string) => {
    const fields: string[] = [];
    // A separator at the end is followed by an empty field.
    for (let rest = line, isEnd = false; !isEnd; ) {
      const inQuotes = quoted.exec(rest);
      const [matched, field] = inQuotes ?? plain.exec(rest) ?? [];
      if (matched === undefined || field === undefined) return { field: fields.length + 1, rest };
      fields.push(inQuotes ? field.replaceAll('""', '"') : field.trim());
      rest = rest.slice(matched.length);
      isEnd = !matched.endsWith(separator);
    }
    return { fields };
  };
}

/** Where a spreadsheet would begin a formula: where a field begins, also one that is separated by semicolons or tabs. */
const FORMULA = /(^|[;\t\r\n])(?=[=+\-@\t\r])/g;

/** A line, without its end. Null is an empty field. A text that looks like a formula gets an apostrophe, as OWASP recommends. */
export function csvLine(fields: (string | number | null)[]): string {
  const texts = fields.map((field) =>
    typeof field === "string" ? field.replace(FORMULA, "$1'") : `${field ?? ""}`,
  );
  return texts.map((text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text)).join();
}
