// CSV as RFC 4180 defines it, in UTF-8, and as spreadsheets write it: with semicolons or tabs between fields, blanks around them, lines of
// empty fields, and a first line such as "sep=;". A field with a line break is refused: else a quote too many would swallow lines.

/** The fields of a line without blanks around them, or what is wrong with it. */
export type CsvLine = { number: number } & ({ fields: string[] } | { problem: string });

/** What can be between fields. */
const SEPARATORS = { commas: ",", semicolons: ";", tabs: "\t" };

/** For Excel, which does not guess the separator. */
const DECLARATION = /^sep=[,;\t]\s*$/i;

/** The lines of a file that are not empty, and the separator that is most frequent in the first one. Throws if it is not UTF-8. */
export function parseCsv(file: Uint8Array) {
  // Without the byte order mark, which Excel writes.
  const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(file);
  const lines = text.split(/\r\n|\n|\r/).map((line, index) => ({ line, number: index + 1 }));
  if (DECLARATION.test(lines[0]?.line ?? "")) lines.shift();
  const first = lines.find(({ line }) => line.trim() !== "")?.line.replace(/"[^"]*"/g, "") ?? "";
  const frequency = ([, separator]: [string, string]) => first.split(separator).length;
  const [[name, separator] = ["commas", ","]] = Object.entries(SEPARATORS).sort(
    (a, b) => frequency(b) - frequency(a),
  );
  const parse = lineParser(separator);
  const parsed = lines.map(({ line, number }): CsvLine => ({ number, ...parse(line) }));
  return {
    separator: name,
    lines: parsed.filter((line) => "problem" in line || line.fields.some(Boolean)),
  };
}

function lineParser(separator: string) {
  const blanks = separator === "\t" ? " *" : "\\s*";
  const field = new RegExp(`${blanks}(?:"((?:[^"]|"")*)"${blanks}|([^"${separator}]*))(${separator}|$)`, "y");
  return (line: string) => {
    const fields: string[] = [];
    field.lastIndex = 0;
    for (;;) {
      const [, quoted, plain = "", end] = field.exec(line) ?? [];
      if (end === undefined)
        return { problem: `field ${fields.length + 1} has a line break, or a quote in the wrong place` };
      fields.push((quoted?.replaceAll('""', '"') ?? plain).trim());
      if (end === "") return { fields };
    }
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
