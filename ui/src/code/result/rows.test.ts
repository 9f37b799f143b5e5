import { afterEach, expect, test, vi } from "vitest";
import { exactNumbers } from "./numbers";
import { type Column, columnsOf, csv, kindOf, measured, nextSort, shown, sortedRows, tabbed, typeOf } from "./rows";

afterEach(() => void vi.unstubAllEnvs());

const column = (kind: Column["kind"]): Column[] => [{ name: "c", type: "", kind }];
const ordered = (kind: Column["kind"], values: unknown[], descending = false) =>
  sortedRows(
    values.map((each) => [each]),
    column(kind),
    { column: 0, descending },
  ).map(([each]) => each);

test("types are read from schemas", () => {
  expect(columnsOf([{ name: "a", type: '"long"' }])).toEqual([{ name: "a", type: "long", kind: "number" }]);
  expect(typeOf('{"type":"array","elementType":"integer"}')).toBe("array");
  expect(kindOf(typeOf('{"type":"array","elementType":"integer"}'))).toBe("text");
  expect(kindOf("decimal(38,2)")).toBe("number");
  expect(kindOf("timestamp_ntz")).toBe("time");
  expect(kindOf("interval day")).toBe("text");
});

test("numbers are sorted by value, also those that are texts", () => {
  expect(ordered("number", [10, 9, null, -1, "2.5"])).toEqual([-1, "2.5", 9, 10, null]);
  expect(ordered("number", [1, null, 3], true)).toEqual([3, 1, null]);
  expect(ordered("number", ["9007199254740993", "9007199254740992", 5])).toEqual([
    5,
    "9007199254740992",
    "9007199254740993",
  ]);
  expect(ordered("number", ["NaN", 1, -2])).toEqual([-2, 1, "NaN"]);
});

test("times are sorted by time and texts as people do", () => {
  expect(ordered("time", ["2026-02-01 10:00:00", "2026-01-31T23:00:00Z", "2026-02-01"]).at(0)).toBe(
    "2026-01-31T23:00:00Z",
  );
  expect(ordered("text", ["b10", "B9", "a"])).toEqual(["a", "B9", "b10"]);
});

test("equal rows keep their order, and the third click restores it", () => {
  const rows = [
    ["x", 1],
    ["x", 2],
    ["a", 3],
  ];
  const columns = columnsOf([
    { name: "t", type: '"string"' },
    { name: "n", type: '"long"' },
  ]);
  expect(sortedRows(rows, columns, { column: 0, descending: false })).toEqual([
    ["a", 3],
    ["x", 1],
    ["x", 2],
  ]);
  expect(sortedRows(rows, columns, { column: 0, descending: true })).toEqual([
    ["x", 1],
    ["x", 2],
    ["a", 3],
  ]);
  expect(sortedRows(rows, columns, { column: 7, descending: true })).toBe(rows);
  const up = nextSort(undefined, 1);
  expect(up).toEqual({ column: 1, descending: false });
  expect(nextSort(up, 1)).toEqual({ column: 1, descending: true });
  expect(nextSort({ column: 1, descending: true }, 1)).toBeUndefined();
  expect(nextSort(up, 0)).toEqual({ column: 0, descending: false });
});

test("10,000 rows are sorted at once", () => {
  const rows = Array.from({ length: 10_000 }, (_, at) => [(at * 7919) % 10_007]);
  const begun = performance.now();
  expect(sortedRows(rows, column("number"), { column: 0, descending: false })[0]).toEqual([0]);
  expect(performance.now() - begun).toBeLessThan(2000);
});

test("files quote what would be read as something else", () => {
  expect(
    csv(
      ["a", "b"],
      [
        ['say "x"', null],
        ["1,5", { k: 1 }],
      ],
    ),
  ).toBe('a,b\r\n"say ""x""",\r\n"1,5","{""k"":1}"\r\n');
  expect(tabbed(["a", "b"], [["x\ty", 1]])).toBe('a\tb\r\n"x\ty"\t1\r\n');
  expect(shown(null)).toBe("null");
});

test("large whole numbers keep their digits", () => {
  const found = exactNumbers('{"a": 9007199254740993, "b": 1.5, "c": 12345678901234567890, "d": 5}');
  expect(found).toEqual({ a: "9007199254740993", b: 1.5, c: "12345678901234567890", d: 5 });
  expect(exactNumbers('{"a": 1}')).toEqual({ a: 1 });
  const texts = { a: 'say "9007199254740993" \\', b: [0.1234567890123456, -12.5e30], "9007199254740993": "\\\\" };
  expect(exactNumbers(JSON.stringify(texts))).toEqual(texts);
});

test("what is no number is none", () => {
  expect(measured("x", "number")).toBeUndefined();
  expect(measured(null, "number")).toBeUndefined();
  expect(measured("1.50", "number")).toBe(1.5);
  expect(measured("2026-01-31T10:00:00Z", "time")).toBe(Date.UTC(2026, 0, 31, 10));
});

test.each(["America/New_York", "UTC", "Asia/Tokyo"])("a date is drawn as that day in %s", (zone) => {
  vi.stubEnv("TZ", zone);
  const day = new Date(measured("2026-01-31", "time") ?? 0);
  expect([day.getFullYear(), day.getMonth(), day.getDate(), day.getHours()]).toEqual([2026, 0, 31, 0]);
});
