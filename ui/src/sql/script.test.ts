import { expect, test } from "vitest";
import { lineAt, mistakeIn, ofSession, parametersIn, statementAt, statementsIn, wanted } from "./script";

const sqls = (text: string) => statementsIn(text).map((each) => each.sql);

test("semicolons separate statements, but not in texts, names and comments", () => {
  expect(sqls("SELECT 1; SELECT ';' AS `a;b` -- ; no\n, 2 /* ; */ ;;\n\nSELECT 'ü', ü")).toEqual([
    "SELECT 1",
    "SELECT ';' AS `a;b` -- ; no\n, 2 /* ; */",
    "SELECT 'ü', ü",
  ]);
  expect(sqls(" -- nothing\n ; ")).toEqual([]);
  expect(sqls("SELECT 'it\\'s;'; SELECT 2")).toEqual(["SELECT 'it\\'s;'", "SELECT 2"]);
  expect(sqls("SELECT (1; SELECT 2")).toEqual(["SELECT (1", "SELECT 2"]);
  expect(sqls("SELECT 1; BEGIN SELECT 2; SELECT 3; END;")).toEqual(["SELECT 1", "BEGIN SELECT 2; SELECT 3; END;"]);
});

test("the statement at the cursor", () => {
  const text = "SELECT 1; -- one\n\n-- about two\nSELECT\n  2;\n";
  const at = (wantedText: string) => statementAt(text, text.indexOf(wantedText))?.sql;
  expect(statementAt(text, 0)?.sql).toBe("SELECT 1");
  expect(at("; -- one")).toBe("SELECT 1");
  expect(at("one")).toBe("SELECT 1");
  expect(at("about")).toBe("SELECT\n  2");
  expect(at("  2")).toBe("SELECT\n  2");
  expect(statementAt(text, text.length)?.sql).toBe("SELECT\n  2");
  expect(statementAt("\n\n", 1)).toBeUndefined();
});

test("what is selected runs, and else the statement at the cursor", () => {
  const text = "SELECT 1; SELECT 2; SELECT 3";
  expect(wanted(text, { from: 8, to: 19 })).toEqual([{ from: 10, to: 18, sql: "SELECT 2" }]);
  expect(wanted(text, { from: 12, to: 12 })).toEqual([{ from: 10, to: 18, sql: "SELECT 2" }]);
  expect(wanted("", { from: 0, to: 0 })).toEqual([]);
});

test("parameters are found, and what only looks like them is not", () => {
  const sql = "SELECT :n + :n, a::int, ':no', v:path, `x`:y, CAST(x AS STRUCT<a:INT, b: DATE>) -- :no\nLIMIT :most_1";
  expect(parametersIn(sql)).toEqual(["n", "most_1"]);
});

test("Spark says where a mistake is", () => {
  const sql = "SELECT a\nFROM nothing.there x";
  const mistake = mistakeIn("[TABLE_OR_VIEW_NOT_FOUND] no; line 2 pos 5", sql);
  expect(mistake && sql.slice(mistake.from, mistake.to)).toBe("nothing.there");
  expect(mistakeIn("[PARSE_SYNTAX_ERROR] Syntax error at or near ','. (line 1, pos 7)", "SELECT ,")).toEqual({
    from: 7,
    to: 8,
  });
  expect(mistakeIn("(line 1, pos 99)", "SELECT")).toEqual({ from: 5, to: 6 });
  expect(mistakeIn("no place", sql)).toBeUndefined();
  expect(lineAt(sql, 9)).toBe(2);
});

test("what only a session remembers", () => {
  expect(["USE main", "set a=1", "CREATE OR REPLACE TEMP VIEW v AS SELECT 1"].map(ofSession)).toEqual([
    true,
    true,
    true,
  ]);
  expect(["SELECT 1", "CREATE TABLE temp (a INT)", "users"].map(ofSession)).toEqual([false, false, false]);
});
