/** The rows of a text with separated values (RFC 4180), at most `most` of them. The last one may be cut off with the text. */
export function rowsOf(text: string, separator: string, most: number): string[][] {
  const rows: string[][] = [];
  let row: string[] = [];
  let cell = "";
  let quoted = false;
  for (let at = 0; at < text.length && rows.length < most; at++) {
    const sign = text[at] as string;
    if (quoted) {
      if (sign !== '"') cell += sign;
      else if (text[at + 1] === '"') {
        cell += '"';
        at++;
      } else quoted = false;
    } else if (sign === '"' && cell === "") quoted = true;
    else if (sign === separator) {
      row.push(cell);
      cell = "";
    } else if (sign === "\n" || sign === "\r") {
      if (sign === "\r" && text[at + 1] === "\n") at++;
      rows.push([...row, cell]);
      row = [];
      cell = "";
    } else cell += sign;
  }
  if (rows.length < most && (cell !== "" || row.length > 0)) rows.push([...row, cell]);
  return rows;
}
