/** Gives the reader a file that the page has made. */
export function download(name: string, parts: BlobPart[], type = "text/plain") {
  const url = URL.createObjectURL(new Blob(parts, { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000); // once the browser has begun to read it
}
