// The changes in CHANGELOG.md that concern clients, for the reference page and the guide as Markdown.

export interface Release {
  name: string;
  /** Markdown. */
  text: string;
}

/** The changes of each release that has some. Readers have no files of the repository, so links to them become text. */
export function changesForClients(changelog: string): Release[] {
  const releases = changelog.split(/^## /m).slice(1);
  return releases.flatMap((release) => {
    const [name = ""] = release.split("\n", 1);
    const [, text] = release.match(/^### For clients\n(.*?)(?=^### |$(?!.))/ms) ?? [];
    return text === undefined
      ? []
      : [{ name, text: text.replace(/\[([^\]]*)\]\((?!https:)[^)]*\)/g, "$1").trim() }];
  });
}
