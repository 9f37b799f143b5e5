import { describe, expect, it } from "vitest";
import { rowsOf } from "./csv";
import { apiPath, crumbsOf, holds, inListOrder, inUrl, kindOf, normal, parentOf, sparkCode, sparkPath } from "./paths";

describe("normal", () => {
  it.each([
    ["/Volumes/main//default/./x/", "/Volumes/main/default/x"],
    ["dbfs:/Volumes/main/default", "/Volumes/main/default"],
    ["dbfs:/data/x", "/dbfs/data/x"],
    ["dbfs:/", "/dbfs"],
    ["/Volumes/main/../../dbfs/x", "/dbfs/x"],
    ["/etc/passwd", ""],
    ["../../..", ""],
    [undefined, ""],
  ])("%s is %s", (given, expected) => expect(normal(given)).toBe(expected));
});

it("names what the APIs take", () => {
  expect(apiPath("/Volumes/main/default/x")).toBe("/Volumes/main/default/x");
  expect(apiPath("/dbfs")).toBe("/");
  expect(apiPath("/Workspace/Shared/a b")).toBe("/Shared/a b");
  expect(inUrl("/Volumes/a b/ü?#%")).toBe("/Volumes/a%20b/%C3%BC%3F%23%25");
  expect(parentOf("/dbfs")).toBe("");
  expect(crumbsOf("/dbfs/a").map((each) => each.path)).toEqual(["/dbfs", "/dbfs/a"]);
});

it("knows what can be created where", () => {
  expect(
    ["/Volumes", "/Volumes/main", "/Volumes/main/default", "/Volumes/main/default/v", "/dbfs", ""].map(holds),
  ).toEqual(["nothing", "schema", "volume", "directory", "directory", "nothing"]);
});

it("never shows markup as such", () => {
  expect(["a.svg", "a.html", "a.HTM", "a", ".png", "a.PNG", "x.csv.gz"].map((each) => kindOf(`/dbfs/${each}`))).toEqual(
    ["text", "text", "text", "text", "image", "image", "binary"],
  );
});

it("writes Spark code", () => {
  expect(sparkPath("/dbfs/a")).toBe("dbfs:/a");
  expect(sparkCode({ path: '/Volumes/main/d/v/a".csv', directory: false })).toBe(
    String.raw`spark.read.csv("/Volumes/main/d/v/a\".csv", header=True, inferSchema=True)`,
  );
  expect(sparkCode({ path: "/dbfs/x", directory: true })).toBe('spark.read.load("dbfs:/x")');
});

it("lists directories first", () => {
  const entry = (name: string, directory: boolean) => ({ name, directory, path: `/dbfs/${name}` });
  expect(inListOrder([entry("b10", false), entry("b9", false), entry("z", true)]).map((each) => each.name)).toEqual([
    "z",
    "b9",
    "b10",
  ]);
});

it("reads separated values", () => {
  expect(rowsOf('a,b\r\n"x, ""y""\nz",1\n,', ",", 9)).toEqual([
    ["a", "b"],
    ['x, "y"\nz', "1"],
    ["", ""],
  ]);
  expect(rowsOf("a\nb\nc", ",", 2)).toEqual([["a"], ["b"]]);
  expect(rowsOf("", ",", 2)).toEqual([]);
});
