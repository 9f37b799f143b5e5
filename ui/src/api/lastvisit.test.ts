import { expect, test } from "vitest";
import { dataIn, textOf } from "./lastvisit";

const KEYS = [["pinned"], ["prices", 2]];
const DATA = [new Set(["a", "b"]), { currency: "USD", perHour: new Map([["small", 1.5]]) }];
const TEXT = textOf("ann", [
  [["prices", 2], DATA[1]],
  [["pinned"], DATA[0]],
]);

test("answers come back as they were, to the same user, and all or none", () => {
  expect(dataIn(TEXT, "ann", KEYS)).toEqual(DATA);
  expect(dataIn(TEXT, "bob", KEYS)).toBeUndefined();
  expect(dataIn(TEXT, "ann", [...KEYS, ["more"]])).toBeUndefined();
});

test("what another version of the page has kept is left alone", () => {
  const others = ["", "7", "null", "{}", '{"version": "other", "user": "ann", "answers": []}'];
  for (const text of others) expect(dataIn(text, "ann", [])).toBeUndefined();
});
