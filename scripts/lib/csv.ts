// CSV as RFC 4180 defines it, in UTF-8, with a comma between fields. A field with a line break is refused.

/** The fields of a line, or what is wrong with it. */
type CsvLine = { number: number } & ({ fields: string[] } | { problem: string });

const QUOTED = /^"((?:[^"]|"")*)"(?:,|$)/;
const PLAIN = /^([^",]*)(?:,|$)/;

/** The lines of a file that are not empty. Throws if it is not UTF-8. */
export function parseCsv(file: Uint8Array): CsvLine[] {
  // Without the byte order mark, which Excel writes.
  const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(file);
  return text.split(/\r\n|\n|\r/).flatMap((line, index) => {
    const number = index + 1;
    return line === "" ? [] : [{ number, ...parseLine(line) }];
  });
}

function parseLine(line: string) {
  const fields: string[] = [];
  // A comma at the end is followed by an empty field.
  for (let rest = line, isEnd = false; !isEnd; ) {
    const [matched, field] = QUOTED.exec(rest) ?? PLAIN.exec(rest) ?? [];
    if (matched === undefined || field === undefined)
      return { problem: `field ${fields.length + 1} has a quote in the wrong place, or a line break` };
    fields.push(rest.startsWith('"') ? field.replaceAll('""', '"') : field);
    rest = rest.slice(matched.length);
    isEnd = !matched.endsWith(",");
  }
  return { fields };
}

/** A line, without its end. */
export function csvLine(fields: string[]): string {
  return fields.map((field) => (/[",\r\n]/.test(field) ? `"${field.replaceAll('"', '""')}"` : field)).join();
}
