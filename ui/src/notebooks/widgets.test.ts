import { expect, it } from "vitest";
import type { Widget } from "../code/commands";
import { chose, heard, isPending, NO_WIDGETS, shownValue } from "./widgets";

const widget = (name: string, value: string): Widget => ({ name, kind: "text", value });
const values = (state: ReturnType<typeof heard>) =>
  Object.fromEntries(state.list.map((each) => [each.name, shownValue(state, each)]));

it("shows what a person has chosen, from then on", () => {
  const first = heard(NO_WIDGETS, [widget("a", "1"), widget("b", "")], "s");
  const second = chose(first, "a", "2");
  expect(values(second)).toEqual({ a: "2", b: "" });
  expect([isPending(first), isPending(second)]).toEqual([false, true]);
  const third = heard(second, [widget("a", "2"), widget("b", "")], "s", { a: "2" });
  expect(values(third)).toEqual({ a: "2", b: "" });
  expect([isPending(third), third.chosen]).toEqual([false, { a: "2" }]);
});

it("keeps a choice that was made while a command ran", () => {
  const chosen = chose(heard(NO_WIDGETS, [widget("a", "1")], "s"), "a", "2");
  expect(heard(chosen, [widget("a", "1")], "s", {}).chosen).toEqual({ a: "2" });
  expect(heard(chose(chosen, "a", "3"), [widget("a", "2")], "s", { a: "2" }).chosen).toEqual({ a: "3" });
  expect(heard(chosen, [widget("a", "1")], "s").chosen).toEqual({ a: "2" }); // the command waits, or was cancelled
});

it("forgets a choice with its widget, and one that code has replaced", () => {
  const chosen = chose(heard(NO_WIDGETS, [widget("a", "1"), widget("b", "")], "s"), "a", "2");
  expect(heard(chosen, [widget("b", "")], "s").chosen).toEqual({});
  expect(heard(chosen, [], "s").chosen).toEqual({});
  expect(values(heard(chosen, [widget("a", "1")], "s", { a: "2" }))).toEqual({ a: "1" });
});

it("keeps choices for the next session, and over a restart of Python", () => {
  const chosen = chose(heard(NO_WIDGETS, [widget("a", "1"), widget("b", "")], "s"), "b", "2");
  const ended = heard(chosen, undefined, "s", { b: "2" });
  expect([ended.list, ended.chosen]).toEqual([[], { b: "2" }]);
  expect(heard(ended, [widget("a", "1")], "s").chosen).toEqual({ b: "2" });
  const next = heard(chosen, [widget("a", "1")], "other");
  expect(values(heard(next, [widget("a", "1"), widget("b", "2")], "other", { b: "2" }))).toEqual({ a: "1", b: "2" });
});
