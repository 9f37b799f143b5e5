/** What the page of files shows; it is in its address. */
export interface FilesSearch {
  path?: string;
  open?: string; // the name of the file that is previewed
}

export const readFilesSearch = ({ path, open }: Record<string, unknown>): FilesSearch => ({
  ...(path ? { path: String(path) } : {}),
  ...(open ? { open: String(open) } : {}),
});
