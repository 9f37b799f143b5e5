import { expect, test } from "vitest";
import { tabReader } from "./tabsearch";

test("an unknown tab is left out", () => {
  const read = tabReader(["rules", "json"] as const);
  expect([read({ tab: "json" }), read({ tab: "other" }), read({})]).toEqual([{ tab: "json" }, {}, {}]);
});
