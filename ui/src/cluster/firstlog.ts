import type { components } from "../api/schema";

export type Log = components["schemas"]["ClusterLog"];

/** The log that one usually looks for first: of the `node` if one is chosen, else of the driver; for a failed init script, its output. */
export function firstLog(files: Log[], node?: string, failure?: string | null): Log | undefined {
  const ofNode = files.filter((each) => each.node === node);
  const driver = ofNode.length > 0 ? ofNode : files.filter((each) => each.role !== "worker");
  const named = (name: string) => driver.find((each) => each.path.endsWith(name));
  const script = failure?.endsWith("INIT_SCRIPT_FAILURE") ? lastScript(driver) : undefined;
  return script ?? named("log4j-active.log") ?? named("stderr") ?? named("stdout") ?? driver[0] ?? files[0];
}

/** The output of the script that ran last: those before it have succeeded. */
const lastScript = (files: Log[]) =>
  files
    .filter((each) => each.path.includes("init_scripts") && each.path.endsWith("stderr.log"))
    .sort((one, other) => one.path.localeCompare(other.path))
    .at(-1);
