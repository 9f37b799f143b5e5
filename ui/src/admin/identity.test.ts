import { expect, it } from "vitest";
import { directGroups, entitle, nameOf, principalOf } from "./identity";

it("sends what has changed of entitlements", () => {
  expect(entitle(["a", "b"], ["b", "c"])).toEqual([
    { op: "add", path: "entitlements", value: [{ value: "c" }] },
    { op: "remove", path: 'entitlements[value eq "a"]' },
  ]);
  expect(entitle(["a"], ["a"])).toEqual([]);
  expect(entitle(['x"] or true'], [])).toEqual([
    { op: "remove", path: String.raw`entitlements[value eq "x\"] or true"]` },
  ]);
});

it("names users and programs", () => {
  expect(nameOf({ id: "1", userName: "ada@example.com", displayName: "Ada" })).toBe("ada@example.com");
  expect(nameOf({ id: "1", applicationId: "app", displayName: "nightly" })).toBe("nightly");
  expect(principalOf({ id: "1", applicationId: "app", displayName: "nightly" })).toBe("app");
  expect(principalOf({ id: "1" })).toBe("");
});

it("leaves out groups of groups and the group of all", () => {
  const groups = [
    { value: "1", display: "data", type: "direct" as const },
    { value: "2", display: "all", type: "indirect" as const },
    { value: "3", display: "users", type: "direct" as const },
  ];
  expect(directGroups({ id: "1", groups }).map((each) => each.display)).toEqual(["data"]);
  expect(directGroups({ id: "1" })).toEqual([]);
});
