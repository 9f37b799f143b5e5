/** A folder whose files can be listed, and by which API. */
export interface Folder {
  api: "workspace" | "dbfs" | "volumes";
  path: string;
}

/** What is typed of a path: the folder that it is in, how that is written, and the name that has begun. */
export interface Typed {
  folder: Folder;
  before: string; // up to and with the last slash, as it is typed
  name: string;
}

const VOLUMES = "/Volumes/";

/** Where a path leads that is being typed; undefined if nothing can be listed there: the node's own files, object stores, and what
 * does not begin like a path. `bare`: where a path without a prefix lies. */
export function typedIn(text: string, bare?: "workspace"): Typed | undefined {
  if (bare === undefined && text !== "" && VOLUMES.startsWith(text))
    // a single slash may become one
    return { folder: { api: "volumes", path: "/Volumes" }, before: VOLUMES, name: "" };
  const slash = text.lastIndexOf("/");
  if (slash < 0) return undefined;
  const before = text.slice(0, slash + 1);
  const name = text.slice(slash + 1);
  const scheme = /^([a-z]+):(.*)$/.exec(before);
  const path = scheme?.[2] ?? before;
  if (!path.startsWith("/") || path.startsWith("//")) return undefined;
  const folder = path.length > 1 ? path.slice(0, -1) : "/";
  const inVolumes = /^\/Volumes(\/|$)/.test(folder);
  if (scheme?.[1] === "dbfs") return { folder: { api: inVolumes ? "volumes" : "dbfs", path: folder }, before, name };
  if (scheme?.[1] === "workspace") return { folder: { api: "workspace", path: folder }, before, name };
  if (scheme !== null) return undefined;
  if (inVolumes) return { folder: { api: "volumes", path: folder }, before, name };
  if (/^\/Workspace(\/|$)/.test(folder)) return { folder: { api: "workspace", path: folder }, before, name };
  if (/^\/dbfs(\/|$)/.test(folder))
    return { folder: { api: "dbfs", path: folder.slice("/dbfs".length) || "/" }, before, name };
  return bare === undefined ? undefined : { folder: { api: bare, path: folder }, before, name };
}

/** Of a folder's names, those of folders (with a slash at their end) and of files that end so, as paths, if what is typed is in
 * them. Folders come first. */
export function entriesOf({ before, name }: Typed, names: readonly string[], ends = ""): string[] {
  const isFolder = (each: string) => each.endsWith("/");
  return names
    .filter((each) => (isFolder(each) || each.endsWith(ends)) && each.toLowerCase().includes(name.toLowerCase()))
    .sort((one, other) => Number(isFolder(other)) - Number(isFolder(one)) || one.localeCompare(other))
    .map((each) => before + each);
}
