import { expect, test } from "vitest";
import { quoted, sourceNamed, sourcesOf, typedName } from "./sqlnames";

test("what is typed is a name after names", () => {
  expect(typedName("select * from main.sa")).toEqual({ path: ["main"], from: 19 });
  expect(typedName("select a.b.")).toEqual({ path: ["a", "b"], from: 11 });
  expect(typedName("select `my table`.co")).toEqual({ path: ["my table"], from: 18 });
  expect(typedName("sel")).toEqual({ path: [], from: 0 });
  expect(typedName("")).toEqual({ path: [], from: 0 });
});

test("a statement's tables and their aliases are found", () => {
  const sql = "SELECT * FROM main.s.sales x JOIN `odd one` AS o ON x.id = o.id LEFT JOIN cities WHERE 1";
  expect(sourcesOf(sql)).toEqual([
    { path: ["main", "s", "sales"], alias: "x" },
    { path: ["odd one"], alias: "o" },
    { path: ["cities"], alias: "" },
  ]);
  expect(sourceNamed(sourcesOf(sql), "X")?.path).toEqual(["main", "s", "sales"]);
  expect(sourceNamed(sourcesOf(sql), "cities")?.path).toEqual(["cities"]);
  expect(sourceNamed(sourcesOf(sql), "nothing")).toBeUndefined();
});

test("names that are no words are quoted", () => {
  expect([quoted("a_1"), quoted("1a"), quoted("a`b")]).toEqual(["a_1", "`1a`", "`a``b`"]);
});
