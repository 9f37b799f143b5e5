import { type Spec, write } from "./spec";

export type Sizing = "fixed" | "autoscale" | "single";
const PROFILE = "spark.databricks.cluster.profile";

export function sizingOf(spec: Spec): Sizing {
  if (spec.is_single_node || spec.spark_conf?.[PROFILE] === "singleNode") return "single";
  return spec.autoscale ? "autoscale" : "fixed";
}

/** The specification with the other kind of size; numbers are kept where they can be. */
export function resized(spec: Spec, to: Sizing): Spec {
  const workers = Math.max(1, spec.num_workers ?? spec.autoscale?.min_workers ?? 1);
  let next = spec;
  if (sizingOf(spec) === "single") {
    for (const path of [["is_single_node"], ["kind"], ["spark_conf", PROFILE], ["spark_conf", "spark.master"]])
      next = write(next, path, undefined);
    next = write(next, ["custom_tags", "ResourceClass"], undefined);
  }
  next = write(
    next,
    ["autoscale"],
    to === "autoscale" ? { min_workers: workers, max_workers: Math.max(workers * 4, 4) } : undefined,
  );
  next = write(next, ["num_workers"], to === "fixed" ? workers : undefined);
  return to === "single" ? write(write(next, ["is_single_node"], true), ["kind"], "CLASSIC_PREVIEW") : next;
}
