import { expect, it } from "vitest";
import { firstLog, type Log } from "./firstlog";

const log = (node: string, path: string, role = "driver"): Log => ({
  file: `${node}/${path}`,
  node,
  path,
  role,
  size: 1,
  running: false,
});
const FILES = [
  log("i-2", "stdout", "worker"),
  log("i-1", "stderr"),
  log("i-1", "init_scripts/c_1/1_a.sh.stderr.log"),
  log("i-1", "init_scripts/c_1/2_b.sh.stderr.log"),
  log("i-1", "log4j-active.log"),
];

it("begins with the driver's log4j, and without one with its stderr", () => {
  expect(firstLog(FILES)?.path).toBe("log4j-active.log");
  expect(firstLog(FILES.slice(0, 2))?.file).toBe("i-1/stderr");
  expect(firstLog(FILES.slice(0, 1))?.file).toBe("i-2/stdout");
  expect(firstLog([])).toBeUndefined();
});

it("begins with the chosen node, if it has logs", () => {
  expect(firstLog(FILES, "i-2")?.file).toBe("i-2/stdout");
  expect(firstLog(FILES, "gone")?.path).toBe("log4j-active.log");
});

it("begins with the output of the last script, if a script failed", () => {
  expect(firstLog(FILES, "i-1", "INIT_SCRIPT_FAILURE")?.path).toContain("2_b.sh");
  expect(firstLog(FILES, "i-1", "GLOBAL_INIT_SCRIPT_FAILURE")?.path).toContain("2_b.sh");
  expect(firstLog(FILES, "i-2", "INIT_SCRIPT_FAILURE")?.file).toBe("i-2/stdout");
});
