import { describe, expect, it } from "vitest";
import type { Cluster } from "../api/client";
import { accessOf, failed, hourly, money, runOf, since, target } from "./facts";

const of = (fields: Partial<Cluster>) => ({ cluster_id: "c", ...fields }) as Cluster;

describe("facts", () => {
  it("finds the run of a job cluster, and of no other", () => {
    const cluster_name = "job-12-run-345678901234567-main";
    expect(runOf(of({ cluster_source: "JOB", cluster_name }))).toBe("345678901234567");
    expect(runOf(of({ cluster_source: "API", cluster_name }))).toBeUndefined();
    expect(runOf(of({ cluster_source: "JOB", cluster_name: "another" }))).toBeUndefined();
  });

  it("knows a failure from an end that somebody wanted", () => {
    const ended = (type: "SUCCESS" | "CLIENT_ERROR") =>
      of({ state: "TERMINATED", termination_reason: { type } as Cluster["termination_reason"] });
    expect(failed(ended("SUCCESS"))).toBe(false);
    expect(failed(ended("CLIENT_ERROR"))).toBe(true);
    expect(failed(of({ state: "RUNNING" }))).toBe(false);
  });

  it("shows a size as a number or as a range", () => {
    expect(target(of({ num_workers: 3 }))).toBe("3");
    expect(target(of({ autoscale: { min_workers: 1, max_workers: 4 } }))).toBe("1–4");
    expect(target(of({}))).toBe("0");
  });

  it("has no price if that of one node is not known", () => {
    const node = {} as NonNullable<Cluster["driver"]>;
    const cluster = of({ driver: node, executors: [node, node], node_type_id: "a", driver_node_type_id: "b" });
    expect(
      hourly(
        cluster,
        new Map([
          ["a", 2],
          ["b", 1],
        ]),
      ),
    ).toBe(5);
    expect(hourly(cluster, new Map([["a", 2]]))).toBeUndefined();
    expect(hourly(cluster, undefined)).toBeUndefined();
  });

  it("says access modes in the form's words", () => {
    expect(accessOf(of({ data_security_mode: "USER_ISOLATION" }))).toBe("Standard");
    expect(accessOf(of({}))).toBe("No isolation shared");
    expect(accessOf(of({ data_security_mode: "LEGACY_TABLE_ACL" }))).toBe("LEGACY_TABLE_ACL");
  });

  it("shows amounts as exactly as they differ", () => {
    expect(money(0.0025, "USD", 0.0025)).toBe("$0.0025");
    expect(money(0.005, "USD", 0.0025)).toBe("$0.0050");
    expect(money(1234.5, "USD")).toBe("$1,234.50");
    expect(money(20, "USD", 10)).toBe("$20.00");
  });

  it("counts from the last start or restart, or from the end", () => {
    expect(since(of({ state: "RUNNING", start_time: 1, last_restarted_time: 5 }))).toBe(5);
    expect(since(of({ state: "TERMINATED", start_time: 1, terminated_time: 9 }))).toBe(9);
    expect(since(of({ state: "PENDING" }))).toBeUndefined();
  });
});
