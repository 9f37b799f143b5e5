import { expect, test } from "vitest";
import { sqlName } from "./names";
import { readCatalogSearch, readHistorySearch } from "./search";

test("a table needs its schema, and a schema its catalog", () => {
  expect(readCatalogSearch({ catalog: "main", schema: "default", table: 7, tab: "sample", q: "x" })).toEqual({
    catalog: "main",
    schema: "default",
    table: "7",
    tab: "sample",
  });
  expect(readCatalogSearch({ schema: "default", table: "t" })).toEqual({});
  expect(readCatalogSearch({ catalog: "main", table: "t", tab: "sample", q: "fl" })).toEqual({
    catalog: "main",
    q: "fl",
  });
});

test("a name that is no word is quoted", () => {
  expect(sqlName("main", "default", "odd`name x")).toBe("main.default.`odd``name x`");
});

test("filters of the history that make no sense are left out", () => {
  const search = { user: "ada@example.com", compute: "w1", state: "FAILED", range: "1d", statement: "s" } as const;
  expect(readHistorySearch(search)).toEqual(search);
  expect(readHistorySearch({ user: "", state: "odd", range: "toString", statement: "" })).toEqual({});
});
