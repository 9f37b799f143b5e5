import { beforeEach, expect, test, vi } from "vitest";
import { lastList, rememberList } from "./lastlist";

beforeEach(() => {
  const kept = new Map<string, string>();
  vi.stubGlobal("sessionStorage", {
    getItem: (key: string) => kept.get(key) ?? null,
    setItem: (key: string, value: string) => void kept.set(key, value),
  });
});

test("each list has its own filters", () => {
  rememberList({ q: "etl", state: ["Failed"] });
  rememberList({ tab: "pools", q: "warm" });
  expect(lastList(undefined)).toEqual({ q: "etl", state: ["Failed"] });
  expect(lastList("pools")).toEqual({ tab: "pools", q: "warm" });
  expect(lastList("policies")).toEqual({ tab: "policies" });
  rememberList({});
  expect(lastList(undefined)).toEqual({});
});

test("a browser without storage leads to the whole list", () => {
  vi.stubGlobal("sessionStorage", {
    getItem: () => {
      throw new Error("no storage");
    },
    setItem: () => {
      throw new Error("no storage");
    },
  });
  rememberList({ q: "etl" });
  expect(lastList(undefined)).toEqual({});
  expect(lastList("job")).toEqual({ tab: "job" });
});
