import { expect, test } from "vitest";
import type { NodeType } from "../api/offers";
import type { components } from "../api/schema";
import { COLUMNS, freeOn, hasColumn, inOrder, matching, nextOrder, rowText, typeRows } from "./nodetypes";

const type = (node_type_id: string, num_cores: number, gib: number, more: Partial<NodeType> = {}) =>
  ({ node_type_id, num_cores, memory_mb: gib * 1024, category: "General", description: "", ...more }) as NodeType;
const TYPES = [
  type("b.large", 8, 32),
  type("a.small", 2, 4),
  type("g.one", 4, 61, { num_gpus: 1, description: "4 cores, 61 GiB, 1 x V100", category: "GPU" }),
  type("old", 4, 8, { is_deprecated: true }),
];
const PRICES = new Map([
  ["b.large", 0.4],
  ["a.small", 0.1],
]);
const rows = typeRows(TYPES, PRICES);
const ids = (found: { id: string }[]) => found.map((each) => each.id);

test("deprecated types are left out unless they are chosen, and so is what a policy does not name", () => {
  expect(ids(rows)).toEqual(["b.large", "a.small", "g.one"]);
  expect(ids(typeRows(TYPES, PRICES, { keep: ["old"], only: new Set(["old", "a.small"]) }))).toEqual([
    "a.small",
    "old",
  ]);
});

test("a column of which nothing is known is left out", () => {
  expect(COLUMNS.filter((each) => hasColumn(rows, each))).toEqual(["id", "cores", "gib", "gpus", "price"]);
  const plain = typeRows(TYPES.slice(0, 2), undefined, { free: () => 0 });
  expect(COLUMNS.filter((each) => hasColumn(plain, each))).toEqual(["id", "cores", "gib", "free"]);
});

test("every word is looked for", () => {
  expect(ids(matching(rows, "gpu"))).toEqual(["g.one"]);
  expect(ids(matching(rows, "general 8 cores"))).toEqual(["b.large"]);
  expect(ids(matching(rows, "v100 61"))).toEqual(["g.one"]);
  expect(ids(matching(rows, ""))).toEqual(ids(rows));
  expect(ids(matching(rows, rowText(rows[0] as (typeof rows)[0], "")))).toEqual(["b.large"]); // the text of the chosen one
});

test("a press on a head sorts, and what has no value comes last either way", () => {
  const up = nextOrder(undefined, "price");
  expect(up).toEqual({ by: "price", down: false });
  expect(ids(inOrder(rows, up))).toEqual(["a.small", "b.large", "g.one"]);
  const down = nextOrder(up, "price");
  expect(ids(inOrder(rows, down))).toEqual(["b.large", "a.small", "g.one"]);
  expect(nextOrder(down, "price")).toBeUndefined();
  expect(ids(inOrder(rows, nextOrder(down, "cores")))).toEqual(["b.large", "g.one", "a.small"]);
  expect(ids(inOrder(rows, nextOrder(undefined, "id")))).toEqual(["a.small", "b.large", "g.one"]);
});

test("what fits now is told where the provider tells its room", () => {
  const room = { cores_total: 16, cores_left: 9, memory_mb_total: 16 * 1024, memory_mb_left: 16 * 1024 };
  const machine = {
    provider: "local",
    providers: [
      { name: "local", room },
      { name: "ray", room: null },
    ],
  } as components["schemas"]["MachineView"];
  const free = freeOn(machine);
  expect(free(type("a", 2, 4))).toBe(4); // by cores
  expect(free(type("b", 1, 12))).toBe(1); // by memory
  expect(free(type("c", 1, 64))).toBe(1); // counts for the machine's memory
  expect(free(type("d", 16, 1))).toBe(0);
  expect(free(type("e", 1, 1, { num_gpus: 1 }))).toBeUndefined();
  expect(free(type("f", 1, 1, { provider: "ray" }))).toBeUndefined();
  expect(freeOn(undefined)(type("g", 1, 1))).toBeUndefined();
});
