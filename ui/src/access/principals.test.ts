import { expect, it } from "vitest";
import { choices, containing, type Principal, principalsOf } from "./principals";

it("asks for a text as it is, whatever it has in it", () => {
  expect(containing(["userName", "displayName"], 'a"\\')).toBe('userName co "a\\"\\\\" or displayName co "a\\"\\\\"');
});

it("names each kind by what the API takes, and leaves out the deactivated", () => {
  expect(
    principalsOf("user_name", [
      { userName: "a@x", displayName: "Ada" },
      { userName: "b@x", active: false },
    ]),
  ).toEqual([{ kind: "user_name", name: "a@x", title: "Ada" }]);
  expect(principalsOf("service_principal_name", [{ applicationId: "1-2", displayName: "nightly" }])).toEqual([
    { kind: "service_principal_name", name: "1-2", title: "nightly" },
  ]);
  expect(principalsOf("group_name", [{ displayName: "data" }, {}])).toEqual([
    { kind: "group_name", name: "data", title: "" },
  ]);
});

it("offers each name once, by kind", () => {
  const one = (kind: Principal["kind"], name: string): Principal => ({ kind, name, title: "" });
  expect(choices([one("group_name", "data"), one("user_name", "data"), one("user_name", "ada")])).toEqual([
    { group: "Users", items: [{ value: "data" }, { value: "ada" }] },
  ]);
});
