import { describe, expect, it } from "vitest";
import { charts, EACH, namesOf, type Range } from "./charts";

const GIB = 1 << 30;

function node(instance_id: string, role: string, metrics: Range["nodes"][number]["metrics"]): Range["nodes"][number] {
  return { instance_id, role, node_type_id: "t", cores: 4, memory_mb: 8192, simulated: false, metrics };
}

const range = (...nodes: Range["nodes"]): Range => ({
  cluster_id: "c",
  start_time: 0,
  end_time: 10_000,
  step_ms: 5000,
  nodes,
});
const named = (found: ReturnType<typeof charts>, title: string) => found.shown.find((each) => each.title === title);

describe("charts", () => {
  it("adds nodes up, and keeps a gap as a gap", () => {
    const found = charts(
      range(node("a", "driver", { cpu_cores: [1, null] }), node("b", "worker", { cpu_cores: [2, null] })),
      "",
    );
    expect(named(found, "CPU")?.lines).toEqual([
      { label: "used", values: [3, null], tint: 0 },
      { label: "available", values: [8, null], tint: 0, limit: true },
    ]);
    expect(found.missing).toContain("Memory");
  });

  it("takes the unit that fits the highest value", () => {
    const of = (bytes: number) =>
      named(charts(range(node("a", "driver", { network_in_bytes_per_s: [bytes, 0] })), ""), "Network between nodes");
    expect([of(12)?.unit, of(12)?.lines[0]?.values]).toEqual(["B/s", [12, 0]]);
    expect([of(2048)?.unit, of(2048)?.lines[0]?.values]).toEqual(["KiB/s", [2, 0]]);
    expect([of(3 * GIB)?.unit, of(3 * GIB)?.lines[0]?.values]).toEqual(["GiB/s", [3, 0]]);
    expect(of(0)?.unit).toBe("B/s");
  });

  it("measures what is used and what is available by one unit", () => {
    const memory = named(charts(range(node("a", "driver", { memory_bytes: [1 << 20] })), ""), "Memory");
    expect(memory?.unit).toBe("GiB");
    expect(memory?.lines.map((each) => each.values[0])).toEqual([1 / 1024, 8]);
  });

  it("draws a line for each node, with colours that stay", () => {
    const found = charts(
      range(
        node("a", "driver", { cpu_cores: [1], executors: [2] }),
        node("b", "worker", { cpu_cores: [3] }),
        node("c", "worker", { cpu_cores: [2], network_in_bytes_per_s: [1], network_out_bytes_per_s: [2] }),
      ),
      EACH,
    );
    expect(named(found, "CPU")?.lines.map(({ label, tint }) => [label, tint])).toEqual([
      ["driver", 0],
      ["worker 1", 1],
      ["worker 2", 2],
    ]);
    expect(named(found, "Network between nodes")?.lines.map((each) => each.label)).toEqual([
      "worker 2 in",
      "worker 2 out",
    ]);
    expect(named(found, "Executors")?.lines).toHaveLength(1);
  });

  it("draws those that use most, and says how many are left out", () => {
    const nodes = Array.from({ length: 11 }, (_, at) => node(`i-${at}`, "worker", { cpu_cores: [at] }));
    const cpu = named(charts(range(...nodes), EACH), "CPU");
    expect(cpu?.lines.map((each) => each.label)).toEqual(
      [4, 5, 6, 7, 8, 9, 10, 11].map((number) => `worker ${number}`),
    );
    expect(cpu?.more).toBe("3 more nodes use less");
  });

  it("shows one node alone", () => {
    const found = charts(range(node("a", "driver", { cpu_cores: [1] }), node("b", "worker", { cpu_cores: [2] })), "b");
    expect(named(found, "CPU")?.lines.map((each) => each.values)).toEqual([[2], [4]]);
  });

  it("averages what cannot be added, and takes the hottest", () => {
    const gpu = (gpu_fraction: number, gpu_temperature_c: number) => ({
      gpu_fraction: [gpu_fraction],
      gpu_temperature_c: [gpu_temperature_c],
    });
    const found = charts(range(node("a", "worker", gpu(0.5, 40)), node("b", "worker", gpu(1, 70))), "");
    expect(named(found, "GPU")?.lines[0]?.values).toEqual([75]);
    expect(named(found, "GPU temperature")?.lines[0]?.values).toEqual([70]);
  });
});

it("names nodes by their role", () => {
  const names = namesOf([
    { instance_id: "a", role: "single" },
    { instance_id: "b", role: "worker" },
  ]);
  expect([...names.values()]).toEqual(["driver", "worker 1"]);
});
