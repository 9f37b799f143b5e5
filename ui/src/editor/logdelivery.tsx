import { SegmentedControl } from "@mantine/core";
import { CheckField, idOf, Label, Locked, TextField, useField } from "./fields";
import { read, type Spec } from "./spec";
import { useEditor } from "./state";

const STORES = [
  { value: "dbfs", label: "DBFS", example: "dbfs:/cluster-logs" },
  { value: "volumes", label: "Volume", example: "/Volumes/main/default/logs" },
  { value: "s3", label: "S3", example: "s3://bucket/logs" },
];

export function logOf(spec: Spec): { store: string; destination?: string } {
  const conf = spec.cluster_log_conf ?? {};
  const store = STORES.find((each) => read(conf, [each.value]) !== undefined)?.value ?? "";
  return { store, destination: read(conf, [store, "destination"]) as string | undefined };
}

export function LogFields() {
  const editor = useEditor();
  const path = ["cluster_log_conf"];
  const field = useField(path);
  const { store, destination } = logOf(editor.draft);
  if (field.hidden) return null;
  if (field.lock !== undefined) return <Locked path={path} label="Log delivery" />;
  const kept = (editor.verdict?.locks ?? []).filter(
    (each) => each.field.startsWith("cluster_log_conf.") && !each.hidden,
  );
  const example = STORES.find((each) => each.value === store)?.example;
  return (
    <div className="stack" id={idOf(path)} tabIndex={-1}>
      {kept.map((each) => (
        <Locked key={each.field} path={each.field.split(".")} label={<code>{each.field}</code>} />
      ))}
      {kept.length === 0 && (
        <div>
          <div className="label">
            <Label path={path} restart={field.restart}>
              Destination
            </Label>
          </div>
          <SegmentedControl
            aria-label="Log delivery"
            size="xs"
            value={store}
            onChange={(next) =>
              editor.set(path, next === "" ? undefined : { [next]: { destination: destination ?? "" } })
            }
            data={[{ value: "", label: "None" }, ...STORES.map(({ value, label }) => ({ value, label }))]}
          />
        </div>
      )}
      {store !== "" && kept.length === 0 && (
        <TextField
          path={[...path, store, "destination"]}
          label="Path"
          placeholder={example}
          help="Logs are delivered every 5 minutes, and at the end."
        />
      )}
      {store === "s3" && (
        <div className="beside">
          <TextField path={[...path, "s3", "region"]} label="Region" placeholder="eu-central-1" />
          <TextField path={[...path, "s3", "endpoint"]} label="Endpoint" placeholder="Only for stores other than AWS" />
          <CheckField path={[...path, "s3", "enable_encryption"]} label="Server-side encryption" />
        </div>
      )}
      {field.error !== undefined && <div className="wrong">{field.error}</div>}
    </div>
  );
}
