import { expect, test } from "vitest";
import { chartData, described, firstChoice } from "./chartdata";
import { columnsOf } from "./rows";

const columns = columnsOf([
  { name: "city", type: '"string"' },
  { name: "day", type: '"date"' },
  { name: "sales", type: '"long"' },
  { name: "cost", type: '"decimal(10,2)"' },
]);
const rows = [
  ["Bern", "2026-01-02", 2, "1.5"],
  ["Aarau", "2026-01-01", 5, null],
  ["Bern", "2026-01-03", 3, "0.5"],
];

test("a chart begins with time or text across and a number up", () => {
  expect(firstChoice(columns)).toEqual({ kind: "line", x: 1, ys: [2] });
  expect(firstChoice(columns.slice(0, 1))).toBeUndefined();
  expect(firstChoice([columns[0], columns[2]].flatMap((each) => each ?? []))).toEqual({ kind: "bar", x: 0, ys: [1] });
  expect(firstChoice(columns.slice(2))).toEqual({ kind: "scatter", x: 0, ys: [1] });
  expect(firstChoice(columns.slice(2, 3))).toEqual({ kind: "line", x: -1, ys: [0] });
  expect(firstChoice([])).toBeUndefined();
});

test("bars of one name are added up", () => {
  const data = chartData(columns, rows, { kind: "bar", x: 0, ys: [2, 3] });
  expect(data.labels).toEqual(["Bern", "Aarau"]);
  expect(data.series).toEqual([
    { name: "sales", values: [5, 5] },
    { name: "cost", values: [2, null] },
  ]);
});

test("lines go along time, in its order", () => {
  const data = chartData(columns, rows, { kind: "line", x: 1, ys: [2] });
  expect(data.time).toBe(true);
  expect(data.xs).toEqual([...data.xs].sort((a, b) => a - b));
  expect(data.series[0]?.values).toEqual([5, 2, 3]);
});

test("without a column across, rows are counted, and what has no place is left out", () => {
  expect(chartData(columns, rows, { kind: "scatter", x: -1, ys: [2] }).xs).toEqual([1, 2, 3]);
  const holes = [...rows, ["x", null, 9, null]];
  expect(chartData(columns, holes, { kind: "scatter", x: 1, ys: [2] }).left).toBe(1);
  const many = Array.from({ length: 150 }, (_, at) => [`c${at}`, null, at, null]);
  const data = chartData(columns, many, { kind: "bar", x: 0, ys: [2] });
  expect([data.xs.length, data.left]).toEqual([100, 50]);
});

test("a chart is told in words", () => {
  const data = chartData(columns, rows, { kind: "bar", x: 0, ys: [2] });
  expect(described(data, "bar", "city")).toBe("Bar chart by city, 2 points: sales from 5 to 5");
});
