import { expect, it } from "vitest";
import { made, named, SOURCES, sourceOf } from "./librarykinds";

it("knows a source by what is typed", () => {
  expect(sourceOf("requests==2.32.3")).toBe("PyPI");
  expect(sourceOf("requests[socks] >= 2")).toBe("PyPI");
  expect(sourceOf("org.jsoup:jsoup:1.18.1")).toBe("Maven");
  expect(sourceOf("/Volumes/main/default/l/a-1.0-py3-none-any.whl ")).toBe("Wheel");
  expect(sourceOf("dbfs:/a.jar")).toBe("JAR");
  expect(sourceOf("/Workspace/Shared/requirements.txt")).toBe("Requirements file");
  expect(sourceOf("--index-url=http://elsewhere x")).toBe("PyPI");
});

it("reads what it has made", () => {
  for (const source of SOURCES) expect(named(made(source, "x", ""))).toEqual([source, "x", ""]);
  expect(named(made("PyPI", "x", "https://mirror"))).toEqual(["PyPI", "x", "https://mirror"]);
});
