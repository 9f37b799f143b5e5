import { describe, expect, it } from "vitest";
import type { Cluster } from "../api/client";
import { explain } from "./explain";

const ended = (state_message: string, code: string, parameters: Record<string, string> = {}) =>
  ({ cluster_id: "c", state_message, termination_reason: { code, type: "CLIENT_ERROR", parameters } }) as Cluster;

describe("explain", () => {
  it("takes the server's remedy, and not another one", () => {
    const found = explain(
      ended("The driver was lost: its machine is gone. Start the cluster again; the kept logs are those of i-1.", "X"),
    );
    expect(found.what).toBe("The driver was lost: its machine is gone.");
    expect(found.todo).toBe("Start the cluster again; the kept logs are those of i-1.");
  });

  it("says what to do by the code only where the message does not", () => {
    const stockout = "CLOUD_PROVIDER_RESOURCE_STOCKOUT";
    const found = explain(ended("No instance is available for the driver: there are none", stockout));
    expect(found.todo).toContain("choose a smaller node type");
    expect(explain(ended("None. Edit the cluster to use another pool.", stockout)).todo).toBe(
      "Edit the cluster to use another pool.",
    );
    expect(explain(ended("It just ended.", "NEW_CODE")).todo).toBe("");
  });

  it("keeps sentences together that tell what happened, and dots inside of names", () => {
    const found = explain(
      ended("Spark refused spark.sql.x = 1.5: it is not a flag. 2 of 3 workers were there. Edit the cluster.", "X"),
    );
    expect(found.what).toBe("Spark refused spark.sql.x = 1.5: it is not a flag. 2 of 3 workers were there.");
    expect(found.todo).toBe("Edit the cluster.");
  });

  it("does not take a first sentence for advice", () => {
    expect(explain(ended("Set up of the node failed.", "X"))).toMatchObject({
      what: "Set up of the node failed.",
      todo: "",
    });
  });

  it("cuts the log off, and finds in it what the sentence has from there", () => {
    const tail = "x INFO y\nException: no such class a.B\n  at main";
    const message = "The driver failed: the JVM ended: no such class a.B";
    const found = explain(
      ended(`${message}\nLast lines of its log:\nException: no such class a.B`, "SPARK_STARTUP_FAILURE", {
        log_tail: tail,
        instance_id: "i-1",
        databricks_error_message: "the JVM ended: no such class a.B",
      }),
    );
    expect(found).toMatchObject({
      what: message,
      log: tail,
      instance: "i-1",
      headline: "no such class a.B",
      facts: [],
    });
  });

  it("looks for nothing that the log does not have", () => {
    expect(explain(ended("The driver failed: it is gone", "X", { log_tail: "another line" })).headline).toBe("");
  });

  it("shows what else the reason has", () => {
    const found = explain(ended("No room: full", "X", { asked: "1 instance", left: "0 instances", why: "full" }));
    expect(found.facts).toEqual([
      ["Requested", "1 instance"],
      ["Available", "0 instances"],
    ]);
  });
});
