import { expect, test } from "vitest";
import { filled, kindOf, libraryName } from "./librarykinds";

test("a library is named by its kind and what it is", () => {
  expect(libraryName({ pypi: { package: "a==1", repo: "https://index.example" } })).toBe("PyPI a==1");
  expect(libraryName({ jar: "dbfs:/a.jar" })).toBe("Jar dbfs:/a.jar");
  expect(kindOf({}).kind).toBe("pypi");
});

test("rows in which nothing was typed do not count", () => {
  const jar = { jar: "dbfs:/a.jar" };
  expect(filled([{ pypi: { package: "" } }, jar, { whl: "" }])).toEqual([jar]);
});
