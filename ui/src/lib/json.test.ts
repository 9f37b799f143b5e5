import { expect, test } from "vitest";
import { jsonObject, pretty } from "./json";

test("a text is an object, or there is a reason why not", () => {
  expect(jsonObject('{"a": 1}')).toEqual({ object: { a: 1 } });
  for (const text of ["[1]", "null", "3", '"a"']) expect(jsonObject(text)).toEqual({ mistake: expect.any(String) });
  expect(jsonObject("{").mistake).toContain("JSON");
});

test("what is not JSON stays as it is", () => {
  expect(pretty('{"a":1}')).toBe('{\n  "a": 1\n}');
  expect(pretty("{ a")).toBe("{ a");
});
