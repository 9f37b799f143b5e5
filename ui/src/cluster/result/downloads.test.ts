import { expect, test } from "vitest";
import { allowsDownloads } from "./downloads";

test("results may be saved unless the workspace forbids it", () => {
  expect(allowsDownloads({})).toBe(true);
  expect(allowsDownloads({ enableResultsDownloading: true })).toBe(true);
  expect(allowsDownloads({ enableResultsDownloading: "false" })).toBe(false);
  expect(allowsDownloads({ enableResultsDownloading: false })).toBe(false);
  expect(allowsDownloads({ results_download: false })).toBe(false);
});
