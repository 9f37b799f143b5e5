import { expect, it } from "vitest";
import { entriesOf, folderOf } from "./paths";

it("knows the folder of what is typed", () => {
  expect(folderOf("/Volumes/main/de")).toBe("/Volumes/main");
  expect(folderOf("/Volumes/main/")).toBe("/Volumes/main");
  for (const text of ["/", "/Vol", "/Volumes", "/Volumes/"]) expect(folderOf(text)).toBe("/Volumes");
  for (const text of ["", "requests", "dbfs:/x", "/Volumesx", "/Volumes//x", "//"])
    expect(folderOf(text)).toBeUndefined();
});

it("offers folders and then files of the kind, as they begin", () => {
  const names = ["b.whl", "notes.md", "builds/", "a.whl"];
  const offered = (typed: string, ends?: string) => entriesOf("/Volumes/v", names, typed, ends);
  expect(offered("/Volumes/v/", ".whl")).toEqual(["/Volumes/v/builds/", "/Volumes/v/a.whl", "/Volumes/v/b.whl"]);
  expect(offered("/Volumes/v/B")).toEqual(["/Volumes/v/builds/", "/Volumes/v/b.whl"]);
  expect(offered("/Volumes/v/x")).toEqual([]);
});
