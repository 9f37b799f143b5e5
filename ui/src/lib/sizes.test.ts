import { expect, test } from "vitest";
import { bytes, count } from "./sizes";

test("bytes have the unit in which they are short", () => {
  expect(bytes(0)).toBe("0 B");
  expect(bytes(1023)).toBe("1023 B");
  expect(bytes(1024)).toBe("1.0 KiB");
  expect(bytes(15 * 1024 ** 3)).toBe("15 GiB");
  expect(bytes(5000 * 1024 ** 4)).toBe("5000 TiB");
});

test("thousands have separators, and one is singular", () => {
  const separated = (10_000).toLocaleString();
  expect(count(1, "node")).toBe("1 node");
  expect(count(10_000, "node")).toBe(`${separated} nodes`);
});
