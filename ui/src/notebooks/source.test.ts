import { describe, expect, it } from "vitest";
import { commandText, parsed, printed, retyped } from "./source";

const HEADER = "# Databricks notebook source\n";
const SEPARATOR = "\n\n# COMMAND ----------\n\n";
const ALL = `${HEADER}import os
x = 1${SEPARATOR}# MAGIC %sql
# MAGIC SELECT 1,
# MAGIC
# MAGIC   2${SEPARATOR}# DBTITLE 1,A title, with a comma
# MAGIC %md
# MAGIC # Hello  
# MAGIC there${SEPARATOR}# MAGIC %sh -e
# MAGIC ls${SEPARATOR}# MAGIC %run ./setup $a="b"${SEPARATOR}# MAGIC %scala
# MAGIC val x = 1${SEPARATOR}%pip install x${SEPARATOR}
`;

describe("a notebook that is not changed is printed as it was read", () => {
  const sources = [
    ALL,
    HEADER,
    HEADER.trimEnd(),
    "",
    "print(1)",
    `${HEADER}x`,
    `${HEADER}\n\n\nx\n\n\n`,
    ALL.replaceAll("\n", "\r\n"),
    `${HEADER}# COMMAND ----------`,
    `${HEADER}# COMMAND ----------\n# COMMAND ----------\n\n\n`,
    `${HEADER}a\n# COMMAND ----------   \nb\r\nc\rd\n#  COMMAND ----------\n# MAGIC\n`,
    `${HEADER}# MAGIC %md\nnot marked\n# MAGIC marked\n# MAGICAL\n\n# MAGIC %sql SELECT 1`,
    `${HEADER}# DBTITLE 1,Only a title\n`,
    `${HEADER}\tä ö ü 日本 \u2028 \u0000 x\n`,
  ];
  it.each(sources.map((each) => [JSON.stringify(each).slice(0, 60), each]))("%s", (_, text) => {
    const whole = text.startsWith(HEADER) || text.startsWith(HEADER.replace("\n", "\r\n"));
    const again = printed(parsed(text, "python"));
    expect(again).toBe(whole ? text : text === "" || text === HEADER.trimEnd() ? HEADER : HEADER + text);
  });
  it("in the other languages, and with anything in it", () => {
    for (const [language, comment] of [
      ["sql", "--"],
      ["scala", "//"],
      ["r", "#"],
    ] as const) {
      const text = ALL.replaceAll(/^#/gm, comment);
      expect(printed(parsed(text, language))).toBe(text);
    }
    const pieces = ["\n", "\r\n", "# COMMAND ----------", "# MAGIC ", "%md", "x", " ", "# DBTITLE 0,t", "\t"];
    let seed = 7;
    const next = (most: number) => {
      seed = (seed * 16807) % 2147483647;
      return seed % most;
    };
    for (let round = 0; round < 2000; round++) {
      const text = HEADER + Array.from({ length: next(20) }, () => pieces[next(pieces.length)]).join("");
      expect(printed(parsed(text, "python"))).toBe(text);
    }
  });
});

it("reads kinds, code and titles", () => {
  const { cells } = parsed(ALL, "python");
  expect(cells.map(({ kind, code, title }) => [kind, code, title])).toEqual([
    ["python", "import os\nx = 1", ""],
    ["sql", "SELECT 1,\n\n  2", ""],
    ["markdown", "# Hello  \nthere", "A title, with a comma"],
    ["python", "%sh -e\nls", ""],
    ["python", '%run ./setup $a="b"', ""],
    ["scala", "val x = 1", ""],
    ["python", "%pip install x", ""],
    ["python", "", ""],
  ]);
  expect(parsed("-- Databricks notebook source\n-- MAGIC %python\n-- MAGIC 1\n", "sql").cells[0]).toMatchObject({
    kind: "python",
    code: "1",
  });
});

it("changes only the cell that is changed", () => {
  const source = parsed(ALL, "python");
  const cells = source.cells.map((each, at) => (at === 1 ? { ...each, code: "SELECT 2\n" } : each));
  expect(printed({ ...source, cells })).toBe(
    ALL.replace("# MAGIC SELECT 1,\n# MAGIC\n# MAGIC   2", "# MAGIC SELECT 2\n# MAGIC"),
  );
});

it("prints cells that are new, moved, removed and of another kind", () => {
  const source = parsed(`${HEADER}a\n\n# COMMAND ----------\n\nb`, "python");
  const [one, two] = source.cells;
  if (one === undefined || two === undefined) throw new Error("cells");
  const text = (cells: typeof source.cells) => printed({ ...source, cells });
  expect(text([two, one])).toBe(`${HEADER}b${SEPARATOR}a\n`);
  expect(text([two])).toBe(`${HEADER}b\n`);
  expect(text([one, two, { kind: "markdown", code: "# x", title: "" }])).toBe(
    `${HEADER}a${SEPARATOR}b${SEPARATOR}# MAGIC %md\n# MAGIC # x\n`,
  );
  expect(text([{ ...one, kind: "shell", code: "ls", title: "T" }, two])).toBe(
    `${HEADER}# DBTITLE 1,T\n# MAGIC %sh\n# MAGIC ls${SEPARATOR}b`,
  );
  expect(text([{ kind: "python", code: "", title: "" }])).toBe(`${HEADER}\n`);
  const again = parsed(text([one, { kind: "sql", code: "SELECT\n\n1", title: "x" }, two]), "python").cells;
  expect(again.map(({ kind, code, title }) => [kind, code, title])).toEqual([
    ["python", "a", ""],
    ["sql", "SELECT\n\n1", "x"],
    ["python", "b", ""],
  ]);
});

it("keeps the ends of lines", () => {
  const source = parsed(`${HEADER}a\n\n# COMMAND ----------\n\nb\n`.replaceAll("\n", "\r\n"), "python");
  const cells = source.cells.map((each) => ({ ...each, code: `${each.code}\n1` }));
  expect(printed({ ...source, cells })).toBe(
    `${HEADER}a\n1\n\n# COMMAND ----------\n\nb\n1\n`.replaceAll("\n", "\r\n"),
  );
});

it("gives the magic back", () => {
  const text = (source: string, at = 0) => {
    const { cells, language } = parsed(HEADER + source, "python");
    const cell = cells[at];
    return cell && commandText(cell, language);
  };
  expect(text("# MAGIC %sql SELECT 1\n")).toBe("%sql SELECT 1");
  expect(text("# MAGIC %sh\n# MAGIC ls\n")).toBe("%sh\nls");
  expect(text("1\n")).toBe("1");
});

it("takes a magic that is typed", () => {
  expect(retyped("%sql\nSELECT 1", "python", "python")).toEqual({ kind: "sql", code: "SELECT 1" });
  expect(retyped("%md ", "python", "python")).toEqual({ kind: "markdown", code: "" });
  expect(retyped("%python\n1", "sql", "sql")).toEqual({ kind: "python", code: "1" });
  expect(retyped("%sh\n", "python", "python")).toEqual({ kind: "shell", code: "" });
  for (const code of ["%sql", "%sh ", "%sh -e\n", "%run ./x", "%pip install x", "x\n%sql\n", "%mdx "])
    expect(retyped(code, "python", "python")).toBeUndefined();
});
