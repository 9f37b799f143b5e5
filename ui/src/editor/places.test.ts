import { expect, test } from "vitest";
import { entriesOf, type Typed, typedIn } from "./places";

test.each([
  ["/Volumes/main/def", "volumes", "/Volumes/main", "def"],
  ["/Volumes/", "volumes", "/Volumes", ""],
  ["dbfs:/Volumes/main/x", "volumes", "/Volumes/main", "x"],
  ["dbfs:/scripts/init.sh", "dbfs", "/scripts", "init.sh"],
  ["dbfs:/", "dbfs", "/", ""],
  ["/dbfs/a/b", "dbfs", "/a", "b"],
  ["/dbfs/a", "dbfs", "/", "a"],
  ["/Workspace/Shared/x", "workspace", "/Workspace/Shared", "x"],
  ["workspace:/Shared/x", "workspace", "/Shared", "x"],
])("%s is listed by %s at %s", (text, api, path, name) => {
  expect(typedIn(text)).toEqual({ folder: { api, path }, before: text.slice(0, text.length - name.length), name });
});

test("a path without a prefix is listed only where it is known whose it is", () => {
  expect(typedIn("/Shared/in")).toBeUndefined();
  expect(typedIn("/Shared/in", "workspace")?.folder).toEqual({ api: "workspace", path: "/Shared" });
});

test.each([
  "",
  "init.sh",
  "s3://bucket/x",
  "abfss://c@a.dfs.core.windows.net/x",
  "gs://b/x",
  "file:/opt/x",
  "dbfs:x",
])("nothing can be listed for %j", (text) => {
  expect(typedIn(text)).toBeUndefined();
});

test.each(["/", "/Vol", "/Volumes", "/Volumes/"])("%s may become a path in a volume", (text) => {
  expect(typedIn(text)).toEqual({ folder: { api: "volumes", path: "/Volumes" }, before: "/Volumes/", name: "" });
});

test("folders are offered, and then files of the kind, in which the name is", () => {
  const names = ["b.whl", "notes.md", "builds/", "a.whl"];
  const offered = (typed: string, ends?: string) => entriesOf(typedIn(typed) as Typed, names, ends);
  expect(offered("/Volumes/v/", ".whl")).toEqual(["/Volumes/v/builds/", "/Volumes/v/a.whl", "/Volumes/v/b.whl"]);
  expect(offered("/Volumes/v/B")).toEqual(["/Volumes/v/builds/", "/Volumes/v/b.whl"]);
  expect(offered("/Volumes/v/x")).toEqual([]);
});
