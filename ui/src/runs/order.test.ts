import { expect, it } from "vitest";
import { columnsOf, drawn, HEIGHT, WIDTH } from "./order";

const task = (task_key: string, ...needs: string[]) => ({
  task_key,
  depends_on: needs.map((each) => ({ task_key: each })),
});

it("puts tasks to the right of what they depend on", () => {
  const keys = (tasks: ReturnType<typeof task>[]) =>
    columnsOf(tasks).map((column) => column.map((each) => each.task_key));
  expect(keys([task("c", "a", "b"), task("a"), task("b", "a"), task("x")])).toEqual([["a", "x"], ["b"], ["c"]]);
  expect(keys([task("a", "gone")])).toEqual([["a"]]);
  expect(
    keys([task("a", "b"), task("b", "a")])
      .flat()
      .sort(),
  ).toEqual(["a", "b"]); // no circle keeps it busy
});

it("draws a line from each task to those that wait for it", () => {
  const { width, height, boxes, edges } = drawn([task("a"), task("b", "a"), task("c", "a", "gone")]);
  expect(edges.map(({ from, to }) => [from, to])).toEqual([
    ["a", "b"],
    ["a", "c"],
  ]);
  expect(boxes.map((each) => each.task.task_key)).toEqual(["a", "b", "c"]);
  const [a, b, c] = boxes;
  expect(b?.left).toBe(c?.left);
  expect(b?.left).toBeGreaterThan(WIDTH);
  expect((c?.top ?? 0) - (b?.top ?? 0)).toBeGreaterThan(HEIGHT);
  expect((a?.top ?? 0) * 2 + HEIGHT).toBe(height); // in the middle
  expect(width).toBe((b?.left ?? 0) + WIDTH);
  expect(drawn([])).toEqual({ width: 0, height: 0, boxes: [], edges: [] });
});
