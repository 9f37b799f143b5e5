import { expect, it } from "vitest";
import { marked, pieces, plain } from "./ansi";

it("reads colours, and leaves out other escape sequences", () => {
  expect(pieces("\u001b[1;31mred\u001b[0m and\u001b[K more")).toEqual([
    { text: "red", style: "bold a-red" },
    { text: " and", style: "" },
    { text: " more", style: "" },
  ]);
  expect(pieces("\u001b[38;5;200mx\u001b[48;2;1;2;3my")).toEqual([
    { text: "x", style: "" },
    { text: "y", style: "" },
  ]);
  expect(plain("\u001b]8;;http://a\u0007link\u001b]8;;\u0007")).toBe("link");
});

it("marks what is searched, also across pieces", () => {
  const found = marked(pieces("ab\u001b[31mCd\u001b[0mef"), "bc");
  expect(found.map((each) => each.text)).toEqual(["a", "b", "C", "d", "ef"]);
  expect(found.filter((each) => each.style.includes("hit")).map((each) => each.text)).toEqual(["b", "C"]);
  expect(marked(pieces("abc"), "x")).toEqual([{ text: "abc", style: "" }]);
});
