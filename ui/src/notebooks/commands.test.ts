import { expect, it } from "vitest";
import { absoluteRun, commandOf } from "./commands";
import { parsed } from "./source";

const PATH = "/Users/me/etl/main";

it.each([
  ["%run ./setup", "%run /Users/me/etl/setup"],
  ["%run ../lib/setup", "%run /Users/me/lib/setup"],
  ["%run setup", "%run /Users/me/etl/setup"],
  ['%run "./a b" $x="1" $y="./z"', '%run "/Users/me/etl/a b" $x="1" $y="./z"'],
  ["%run ./a b $x=1\nprint(1)", "%run /Users/me/etl/a b $x=1\nprint(1)"],
  ["%run /Shared/x", "%run /Shared/x"],
  ["%run", "%run"],
  ["x\n%run ./setup", "x\n%run ./setup"],
])("%s", (given, wanted) => expect(absoluteRun(given, PATH)).toBe(wanted));

it("knows what each cell runs", () => {
  const source = parsed(
    [
      "# MAGIC %sql\n# MAGIC SELECT 1",
      "# MAGIC %sh\n# MAGIC ls",
      "# MAGIC %md\n# MAGIC x",
      "# MAGIC %r\n# MAGIC 1",
      "",
      "x",
    ].join("\n\n# COMMAND ----------\n\n"),
    "python",
  );
  expect(source.cells.map((each) => commandOf(each, "python", PATH))).toEqual([
    { language: "sql", command: "SELECT 1" },
    { language: "python", command: "%sh\nls" },
    undefined,
    undefined,
    undefined,
    { language: "python", command: "x" },
  ]);
});
