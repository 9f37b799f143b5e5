/** Paths in volumes, while they are typed. */

const ROOT = "/Volumes";

/** The folder whose entries complete what is typed; undefined if that is no path in a volume. A single slash may become one. */
export function folderOf(text: string): string | undefined {
  if (text === "/" || (text.length > 1 && `${ROOT}/`.startsWith(text))) return ROOT;
  if (!text.startsWith(`${ROOT}/`) || text.includes("//")) return undefined;
  return text.slice(0, text.lastIndexOf("/"));
}

/** Of a folder's names, those of folders (with a slash at their end) and of files that end so, as paths, if they begin as what is
 * typed. Folders come first. */
export function entriesOf(folder: string, names: readonly string[], typed: string, ends = ""): string[] {
  const isFolder = (name: string) => name.endsWith("/");
  return names
    .filter((name) => isFolder(name) || name.endsWith(ends))
    .sort((one, other) => Number(isFolder(other)) - Number(isFolder(one)) || one.localeCompare(other))
    .map((name) => `${folder}/${name}`)
    .filter((path) => path.toLowerCase().startsWith(typed.toLowerCase()));
}
