/** Colours of terminals: a line as pieces, each with the classes of its style. */
export interface Piece {
  text: string;
  style: string;
}

const COLOURS = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what escape sequences begin with
const ESCAPE = /\u001b\[([0-9;]*)m|\u001b\[[0-?]*[ -/]*[@-~]|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)/g;

/** Escape sequences that are no colours are left out. */
export function pieces(line: string): Piece[] {
  if (!line.includes("\u001b")) return [{ text: line, style: "" }];
  const found: Piece[] = [];
  const style = new Map<string, string>();
  let from = 0;
  const add = (text: string) => {
    if (text !== "") found.push({ text, style: [...style.values()].join(" ") });
  };
  for (const match of line.matchAll(ESCAPE)) {
    add(line.slice(from, match.index));
    from = match.index + match[0].length;
    if (match[1] !== undefined) apply(style, match[1]);
  }
  add(line.slice(from));
  return found;
}

function apply(style: Map<string, string>, given: string) {
  const codes = given === "" ? [0] : given.split(";").map(Number);
  for (let at = 0; at < codes.length; at++) {
    const code = codes[at] ?? 0;
    if (code === 0) style.clear();
    else if (code === 1) style.set("weight", "bold");
    else if (code === 22) style.delete("weight");
    else if (code >= 30 && code <= 37) style.set("colour", `a-${COLOURS[code - 30]}`);
    else if (code >= 90 && code <= 97) style.set("colour", `a-${COLOURS[code - 90]}`);
    else if (code === 39) style.delete("colour");
    else if (code === 38 || code === 48) at += codes[at + 1] === 5 ? 2 : 4; // of 256, or of all: left out
  }
}

export const plain = (line: string) => line.replace(ESCAPE, "");

/** The pieces, cut where `wanted` (in small letters) begins and ends; those that are it get the class "hit". */
export function marked(line: Piece[], wanted: string): Piece[] {
  if (wanted === "") return line;
  const text = line.map((each) => each.text).join("");
  const cuts: [number, number][] = [];
  const small = text.toLowerCase();
  for (let at = small.indexOf(wanted); at >= 0; at = small.indexOf(wanted, at + wanted.length))
    cuts.push([at, at + wanted.length]);
  if (cuts.length === 0) return line;
  const found: Piece[] = [];
  let start = 0;
  for (const piece of line) {
    let at = start;
    const end = start + piece.text.length;
    while (at < end) {
      const hit = cuts.find(([from, to]) => from <= at && at < to);
      const stop = Math.min(end, hit ? hit[1] : (cuts.find(([from]) => from > at)?.[0] ?? end));
      const part = text.slice(at, stop);
      found.push({ text: part, style: hit ? `${piece.style} hit` : piece.style });
      at = stop;
    }
    start = end;
  }
  return found;
}
