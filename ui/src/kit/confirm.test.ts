import { expect, test } from "vitest";
import { isTyped } from "./confirm";

test("a number can be typed with separators or without", () => {
  for (const typed of ["10000", "10,000", "10.000", "10 000", " 10000 "]) expect(isTyped("10000", typed)).toBe(true);
  for (const typed of ["", "1000", "100000", "10k"]) expect(isTyped("10000", typed)).toBe(false);
});
