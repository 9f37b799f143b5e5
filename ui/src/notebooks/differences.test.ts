import { describe, expect, it } from "vitest";
import { differences } from "./differences";

const marked = (one: string, other: string) => differences(one, other).map(({ mark, text }) => mark + text);

it("shows the lines that differ, with those around them", () => {
  expect(marked("a", "a")).toEqual([]);
  expect(marked("", "")).toEqual([]);
  expect(marked("", "a")).toEqual(["-", "+a"]);
  expect(marked("a\nb\nc", "a\nX\nc")).toEqual([" a", "-b", "+X", " c"]);
  expect(marked("a\nc", "a\nb\nc")).toEqual([" a", "+b", " c"]);
  expect(marked("a\nb\nc", "a\nc")).toEqual([" a", "-b", " c"]);
  expect(marked("a\n", "a")).toEqual([" a", "-"]);
});

it("leaves out what is far from a difference", () => {
  const lines = Array.from({ length: 20 }, (_, at) => String(at));
  const other = lines.with(10, "X").join("\n");
  expect(marked(lines.join("\n"), other)).toEqual(["…", " 8", " 9", "-10", "+X", " 11", " 12", "…"]);
});

describe("any two texts", () => {
  let seed = 11;
  const next = (most: number) => {
    seed = (seed * 16807) % 2147483647;
    return seed % most;
  };
  const text = () => Array.from({ length: next(12) }, () => "abc"[next(3)]).join("\n");
  it("have differences that make one of the other, with as few lines as can be", () => {
    for (let round = 0; round < 500; round++) {
      const [one, other] = [text(), text()];
      const found = differences(one, other);
      const only = (mark: string) => found.filter((each) => each.mark === mark).map((each) => each.text);
      const [a, b] = [one.split("\n"), other.split("\n")];
      expect(a.length - only("-").length).toBe(b.length - only("+").length); // what both have
      expect(common(a, b)).toBe(a.length - only("-").length);
    }
  });
});

/** The length of the longest common subsequence, by its definition. */
function common(a: string[], b: string[]): number {
  const [first, ...rest] = a;
  if (first === undefined || b.length === 0) return 0;
  const at = b.indexOf(first);
  const without = common(rest, b);
  return at < 0 ? without : Math.max(without, 1 + common(rest, b.slice(at + 1)));
}

it("shows very large differences as one block", () => {
  const [one, other] = ["a\n", "b\n"].map((line) => line.repeat(2500));
  const found = differences(`${one}same\nx`, `${other}same\ny`);
  expect(found.filter((each) => each.mark === "-")).toHaveLength(2502);
  expect(found[0]?.mark).toBe("-");
  expect(found.at(-1)?.mark).toBe("+");
});
