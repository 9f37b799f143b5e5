export interface Line {
  mark: " " | "+" | "-" | "…"; // in both, only in the second, only in the first, and what is left out
  text: string;
}

const AROUND = 2; // lines shown before and after a difference
const MOST = 4_000_000; // comparisons: larger differences are shown as one block

/** The lines in which two texts differ, with some around them. */
export function differences(one: string, other: string): Line[] {
  const [a, b] = [one.split("\n"), other.split("\n")];
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a.at(-1 - end) === b.at(-1 - end)) end++;
  const middle = compared(a.slice(start, a.length - end), b.slice(start, b.length - end));
  if (middle.length === 0) return [];
  const same = (lines: string[]): Line[] => lines.map((text) => ({ mark: " ", text }));
  return shortened([...same(a.slice(0, start)), ...middle, ...same(end > 0 ? a.slice(-end) : [])]);
}

/** By the longest common subsequence. */
function compared(a: string[], b: string[]): Line[] {
  const removed = (lines: string[]): Line[] => lines.map((text) => ({ mark: "-", text }));
  const added = (lines: string[]): Line[] => lines.map((text) => ({ mark: "+", text }));
  if (a.length * b.length > MOST) return [...removed(a), ...added(b)];
  const width = b.length + 1;
  const lengths = new Uint32Array((a.length + 1) * width);
  const length = (i: number, j: number) => lengths[i * width + j] ?? 0;
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      lengths[i * width + j] = a[i] === b[j] ? length(i + 1, j + 1) + 1 : Math.max(length(i + 1, j), length(i, j + 1));
  const found: Line[] = [];
  let [i, j] = [0, 0];
  while (i < a.length && j < b.length) {
    if (a[i] === b[j]) {
      found.push({ mark: " ", text: a[i] ?? "" });
      i++;
      j++;
    } else if (length(i + 1, j) >= length(i, j + 1)) found.push(...removed([a[i++] ?? ""]));
    else found.push(...added([b[j++] ?? ""]));
  }
  return [...found, ...removed(a.slice(i)), ...added(b.slice(j))];
}

function shortened(lines: Line[]): Line[] {
  const near = (at: number) => lines.slice(Math.max(0, at - AROUND), at + AROUND + 1).some((each) => each.mark !== " ");
  return lines.flatMap((each, at) => {
    if (near(at)) return [each];
    return at === 0 || near(at - 1) ? [{ mark: "…" as const, text: "" }] : [];
  });
}
