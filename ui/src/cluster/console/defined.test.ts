import { expect, test } from "vitest";
import { definedNames } from "./defined";

const python = (code: string) => definedNames([{ language: "python", code }], "python");

test("variables, functions, classes and imports of Python", () => {
  expect(python("total = 1\nfirst, second = 1, 2\nrate: float = 0.5")).toEqual(["total", "first", "second", "rate"]);
  expect(python("def load(day):\n    inner = 1\nclass Row:\n    def get(self): ...")).toEqual(["load", "Row", "get"]);
  expect(python("import os.path\nimport numpy as np\nfrom a.b import c, d as e\nfrom x import *")).toEqual([
    "os",
    "np",
    "c",
    "e",
  ]);
  expect(python("for row in rows:\n  pass\nwith open(p) as f:\n  pass")).toEqual(["row", "f"]);
  expect(python("total == 1\nf(x=1)\nprint(a)")).toEqual([]);
});

test("views and tables for SQL, whoever makes them", () => {
  const cells = [
    { language: "python" as const, code: 'df.createOrReplaceTempView("daily")' },
    {
      language: "sql" as const,
      code: "CREATE OR REPLACE TEMP VIEW weekly AS SELECT 1; create table if not exists main.a.b",
    },
  ];
  expect(definedNames(cells, "sql")).toEqual(["daily", "weekly", "main.a.b"]);
  expect(definedNames(cells, "python")).toEqual([]);
});
