import { expect, it, vi } from "vitest";
import type { Stored } from "./calls";
import { Drafts } from "./drafts";
import { Kept } from "./testing";

// What a notebook takes from a browser when it is loaded and opened.
vi.hoisted(() =>
  Object.assign(globalThis, {
    window: globalThis,
    document: { hidden: false, addEventListener: () => {} },
    location: { pathname: "/workspace/notebook", search: "" },
    addEventListener: () => {},
  }),
);
const { opened, savedOf } = await import("./book");

const stored = (code: string, etag: string): Stored => ({
  ...{ objectId: 1, language: "python", modified: 1, etag },
  source: `# Databricks notebook source\n${code}\n`,
});

it("is not shown as it was read before its own save", async () => {
  const opening = { user: "me", drafts: new Drafts("me", "/n", "one", new Kept()), others: [] };
  const before = stored("old", "1");
  const book = opened("/n", { ...opening, stored: before });
  book.saver.calls.write = async () => "2";
  const over = savedOf("me", "/n");
  book.type(1, "new");
  await book.saver.flush();
  expect(opened("/n", { ...opening, stored: before, over })).toBe(book);
  expect([book.cells.get()[0]?.code, book.saver.base.etag]).toEqual(["new", "2"]);
  opened("/n", { ...opening, stored: stored("theirs", "3"), over: savedOf("me", "/n") });
  expect([book.cells.get()[0]?.code, book.saver.base.etag]).toEqual(["theirs", "3"]);
});
