import { expect, test } from "vitest";
import { typedIn } from "./places";

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
