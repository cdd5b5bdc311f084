// CSV as RFC 4180 defines it, in UTF-8, and as spreadsheets write it: with semicolons or tabs between fields, with blanks around them, and
// with lines of empty fields. A field with a line break is refused.

/** The fields of a line, or what is wrong with it. */
export type CsvLine = { number: number } & ({ fields: string[] } | { problem: string });

/** What can be between fields, by its name. */
const SEPARATORS = { commas: ",", semicolons: ";", tabs: "\t" };

type Separator = keyof typeof SEPARATORS;

/** The lines of a file that are not empty, and what separates their fields: the separator that is most frequent in the first one. Throws if it is not UTF-8. */
export function parseCsv(file: Uint8Array): { lines: CsvLine[]; separator: Separator | undefined } {
  // Without the byte order mark, which Excel writes.
  const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(file);
  const all = text.split(/\r\n|\n|\r/).map((line, index) => ({ line, number: index + 1 }));
  const separator = separatorOf(all.find(({ line }) => line.trim() !== "")?.line ?? "");
  const parse = lineParser(SEPARATORS[separator ?? "commas"]);
  const lines = all.map(({ line, number }) => ({ number, ...parse(line) }));
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
  return (line: string) => {
    const fields: string[] = [];
    // A separator at the end is followed by an empty field.
    for (let rest = line, isEnd = false; !isEnd; ) {
      const inQuotes = quoted.exec(rest);
      const [matched, field] = inQuotes ?? plain.exec(rest) ?? [];
      if (matched === undefined || field === undefined)
        return { problem: `field ${fields.length + 1} has a quote in the wrong place, or a line break` };
      fields.push(inQuotes ? field.replaceAll('""', '"') : field.trim());
      rest = rest.slice(matched.length);
      isEnd = !matched.endsWith(separator);
    }
    return { fields };
  };
}

/** A line, without its end. */
export function csvLine(fields: string[]): string {
  return fields.map((field) => (/[",\r\n]/.test(field) ? `"${field.replaceAll('"', '""')}"` : field)).join();
}
