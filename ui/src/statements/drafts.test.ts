import { expect, test } from "vitest";
import { added, changed, type Draft, nameOf, removed } from "./drafts";

const draft = (id: number, text = `SELECT ${id}`): Draft => ({ id, text, given: {} });

test("a text comes into a new draft, or into an empty last one", () => {
  expect(added([draft(1), draft(4)], "x")).toEqual([[draft(1), draft(4), draft(5, "x")], 5]);
  expect(added([draft(1), draft(2, " \n")], "x")).toEqual([[draft(1), draft(2, "x")], 2]);
  expect(added([draft(1, "")], "")).toEqual([[draft(1, ""), draft(2, "")], 2]);
});

test("one draft is always there", () => {
  expect(removed([draft(1), draft(2)], 1)).toEqual([draft(2)]);
  expect(removed([draft(7)], 7)).toEqual([draft(1, "")]);
  expect(changed([draft(1), draft(2)], 2, { text: "new" })[1]?.text).toBe("new");
});

test("a first line that is a comment is the name", () => {
  expect(nameOf(draft(3))).toBe("Query 3");
  expect(nameOf(draft(3, "-- Late flights \nSELECT 1"))).toBe("Late flights");
  expect(nameOf(draft(3, "--\nSELECT 1"))).toBe("Query 3");
});
