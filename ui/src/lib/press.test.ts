import { expect, test } from "vitest";
import { Press } from "./press";

test("a press lasts until its click is over", async () => {
  const press = new Press();
  press.begin();
  expect(press.held.get()).toBe(true);
  press.end();
  expect(press.held.get()).toBe(true); // the click comes after the release
  await new Promise((done) => setTimeout(done, 5));
  expect(press.held.get()).toBe(false);
});

test("a second press is not ended by the first one's release", async () => {
  const press = new Press();
  press.begin();
  press.end();
  press.begin();
  await new Promise((done) => setTimeout(done, 5));
  expect(press.held.get()).toBe(true);
});
