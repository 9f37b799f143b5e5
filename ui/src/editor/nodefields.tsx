import { SegmentedControl } from "@mantine/core";
import { NumberField, SelectField, useField } from "./fields";
import { NodeTypeField, poolOptions } from "./offers";
import { resized, type Sizing, sizingOf } from "./sizing";
import { write } from "./spec";
import { useEditor } from "./state";

export function NodeFields() {
  const editor = useEditor();
  const { draft } = editor;
  const sizing = sizingOf(draft);
  const locks = (editor.verdict?.locks ?? []).map((each) => each.field.split(".")[0]);
  const fixedScale = locks.includes("autoscale");
  const pooled = draft.instance_pool_id != null;
  const choosePool = (id: string | undefined) =>
    editor.change((now) => {
      const was = editor.offers.pools.find((each) => each.instance_pool_id === now.instance_pool_id);
      const types = ["node_type_id", "driver_node_type_id"];
      const bare = [...types, "driver_instance_pool_id"].reduce((into, name) => write(into, [name], undefined), now);
      const next = write(bare, ["instance_pool_id"], id); // a pool decides the node types
      return id === undefined ? write(next, ["node_type_id"], was?.node_type_id) : next;
    });
  return (
    <>
      <PoolField choose={choosePool} />
      {!pooled && <NodeTypeField path={["node_type_id"]} label={sizing === "single" ? "Node type" : "Worker type"} />}
      {!pooled && sizing !== "single" && (
        <NodeTypeField path={["driver_node_type_id"]} label="Driver type" clear="Same as worker" />
      )}
      {pooled && (
        <SelectField
          path={["driver_instance_pool_id"]}
          label="Driver's pool"
          clear="Same as the workers'"
          data={poolOptions(editor.offers)}
        />
      )}
      {!fixedScale && !locks.includes("num_workers") && !locks.includes("is_single_node") && (
        <div>
          <div className="label">Size</div>
          <SegmentedControl
            aria-label="Size"
            size="xs"
            value={sizing}
            onChange={(to) => editor.change((now) => resized(now, to as Sizing))}
            data={[
              { value: "fixed", label: "Fixed" },
              { value: "autoscale", label: "Autoscaling" },
              { value: "single", label: "Single node" },
            ]}
          />
        </div>
      )}
      {sizing === "autoscale" || fixedScale ? (
        <div className="beside">
          <NumberField path={["autoscale", "min_workers"]} label="Min workers" min={0} w={140} />
          <NumberField path={["autoscale", "max_workers"]} label="Max workers" min={0} w={140} />
        </div>
      ) : sizing === "fixed" ? (
        <NumberField path={["num_workers"]} label="Workers" min={0} w={140} />
      ) : (
        <p className="help">One node: the driver runs the tasks as well.</p>
      )}
      <AutoTermination />
    </>
  );
}

function PoolField({ choose }: { choose: (id: string | undefined) => void }) {
  const editor = useEditor();
  return (
    <SelectField
      path={["instance_pool_id"]}
      label="Pool"
      clear="None"
      choose={choose}
      help="The pool sets the node type. Its idle instances make starts faster."
      data={poolOptions(editor.offers)}
    />
  );
}

function AutoTermination() {
  const path = ["autotermination_minutes"];
  const field = useField(path);
  const minutes = field.value ?? field.effective;
  return (
    <NumberField
      path={path}
      label="Terminate after"
      suffix=" minutes"
      min={0}
      help={minutes === 0 ? "The cluster runs until someone terminates it." : "Minutes without activity. 0: never."}
    />
  );
}
