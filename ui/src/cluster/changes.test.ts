import { expect, it } from "vitest";
import { changed, readMinutes, readName, readNewTag, readSize, readTag } from "./changes";

it("reads minutes, and words for none", () => {
  expect(readMinutes(" 45 ")).toEqual({ autotermination_minutes: 45 });
  expect(readMinutes("Never")).toEqual({ autotermination_minutes: 0 });
  expect(readMinutes("")).toEqual({ autotermination_minutes: 0 });
  expect(readMinutes("1.5")).toBeNull();
  expect(readMinutes("-1")).toBeNull();
});

it("reads a size and a range, each in place of the other", () => {
  expect(readSize("4")).toEqual({ num_workers: 4, autoscale: undefined });
  for (const text of ["1-8", "1 – 8", "1 to 8", "1..8"])
    expect(readSize(text)).toEqual({ autoscale: { min_workers: 1, max_workers: 8 }, num_workers: undefined });
  expect(readSize("many")).toBeNull();
  expect(changed({ num_workers: 2 }, readSize("1-2") ?? {})).toEqual({ autoscale: { min_workers: 1, max_workers: 2 } });
});

it("changes, removes and adds a tag", () => {
  const tags = { team: "a", cost: "1" };
  expect(readTag(tags, "team")(" b ")).toEqual({ custom_tags: { team: "b", cost: "1" } });
  expect(readTag(tags, "team")("")).toEqual({ custom_tags: { cost: "1" } });
  expect(readNewTag(tags)("owner: ada: b")).toEqual({ custom_tags: { ...tags, owner: "ada: b" } });
  expect(readNewTag(tags)("owner=")).toEqual({ custom_tags: { ...tags, owner: "" } });
  expect(readNewTag(tags)("no value")).toBeNull();
  expect(readNewTag(tags)(": x")).toBeNull();
});

it("takes no empty name", () => {
  expect(readName("  ")).toBeNull();
  expect(readName(" a ")).toEqual({ cluster_name: "a" });
});
