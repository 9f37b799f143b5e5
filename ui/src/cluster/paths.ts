/** Paths in volumes, while they are typed. */

const ROOT = "/Volumes";

/** The folder whose entries complete what is typed; undefined if that is no path in a volume. A single slash may become one. */
export function folderOf(text: string): string | undefined {
  if (text === "/" || (text.length > 1 && `${ROOT}/`.startsWith(text))) return ROOT;
  if (!text.startsWith(`${ROOT}/`) || text.includes("//")) return undefined;
  return text.slice(0, text.lastIndexOf("/"));
}

export interface Entry {
  name: string;
  is_directory: boolean;
}

/** Folders, with a slash at their end, and files that end so, if they begin as what is typed. Folders come first. */
export function entriesOf(folder: string, entries: readonly Entry[], typed: string, ends = ""): string[] {
  const wanted = entries.filter((each) => each.is_directory || each.name.endsWith(ends));
  return wanted
    .sort((one, other) => Number(other.is_directory) - Number(one.is_directory) || one.name.localeCompare(other.name))
    .map((each) => `${folder}/${each.name}${each.is_directory ? "/" : ""}`)
    .filter((path) => path.toLowerCase().startsWith(typed.toLowerCase()));
}
