/** A specification as lines that make the same cluster with the SDK, the CLI and Terraform. */

type Spec = Record<string, unknown>;

const CLASSES: Record<string, string> = {
  autoscale: "AutoScale",
  aws_attributes: "AwsAttributes",
  azure_attributes: "AzureAttributes",
  gcp_attributes: "GcpAttributes",
  cluster_log_conf: "ClusterLogConf",
  init_scripts: "InitScriptInfo",
  workload_type: "WorkloadType",
  driver_node_type_flexibility: "NodeTypeFlexibility",
  worker_node_type_flexibility: "NodeTypeFlexibility",
};
const ENUMS: Record<string, string> = {
  data_security_mode: "DataSecurityMode",
  runtime_engine: "RuntimeEngine",
  kind: "Kind",
};
/** What only one request may have, or Brickyard alone knows. */
const ONCE = new Set(["idempotency_token", "validate_only", "clone_from"]);

function fields(spec: Spec): [string, unknown][] {
  return Object.entries(spec).filter(([name, value]) => value !== null && value !== undefined && !ONCE.has(name));
}

/** A value as Python. */
function python(value: unknown, indent: string): string {
  if (value === true) return "True";
  if (value === false) return "False";
  if (value === null || value === undefined) return "None";
  if (typeof value === "number") return String(value);
  if (typeof value === "string") return pythonText(value);
  const inner = `${indent}    `;
  if (Array.isArray(value))
    return value.length === 0
      ? "[]"
      : `[\n${value.map((each) => `${inner}${python(each, inner)},\n`).join("")}${indent}]`;
  const items = Object.entries(value as Spec).filter(([, each]) => each !== null && each !== undefined);
  return items.length === 0
    ? "{}"
    : `{\n${items.map(([name, each]) => `${inner}${pythonText(name)}: ${python(each, inner)},\n`).join("")}${indent}}`;
}

/** JSON's escapes are Python's too, but for characters beyond 16 bits, which JSON leaves as they are. */
const pythonText = (text: string) => JSON.stringify(text);

export function asSdk(spec: Spec): string {
  const used = new Set<string>();
  const lines = fields(spec).map(([name, value]) => {
    const kind = CLASSES[name];
    const listed = ENUMS[name];
    if (kind) used.add(kind);
    if (listed) used.add(listed);
    if (kind && Array.isArray(value))
      return `    ${name}=[${value.map((each) => `${kind}.from_dict(${python(each, "    ")})`).join(", ")}],`;
    if (kind) return `    ${name}=${kind}.from_dict(${python(value, "    ")}),`;
    if (listed) return `    ${name}=${listed}(${pythonText(String(value))}),`;
    return `    ${name}=${python(value, "    ")},`;
  });
  const names = [...used].sort().join(", ");
  const second = names ? `from databricks.sdk.service.compute import ${names}\n` : "";
  return `from databricks.sdk import WorkspaceClient\n${second}
w = WorkspaceClient()
w.clusters.create(
${lines.join("\n")}
).result()
`;
}

export function asCli(spec: Spec): string {
  const json = JSON.stringify(Object.fromEntries(fields(spec)), null, 2);
  return `databricks clusters create --json '${json.replaceAll("'", "'\\''")}'\n`;
}

/** A text as HCL: `\${` and `%{` would begin a template. */
const hclText = (text: string) => JSON.stringify(text).replaceAll(/[$%](?=\{)/g, (sign) => sign + sign);

const MAPS = new Set(["custom_tags", "spark_conf", "spark_env_vars"]);

function hcl(name: string, value: unknown, indent: string): string {
  if (Array.isArray(value) && value.every((each) => typeof each !== "object"))
    return `${indent}${name} = [${value.map((each) => hclValue(each)).join(", ")}]\n`;
  if (Array.isArray(value)) return value.map((each) => hcl(name, each, indent)).join("");
  if (typeof value !== "object" || value === null) return `${indent}${name} = ${hclValue(value)}\n`;
  const items = Object.entries(value as Spec).filter(([, each]) => each !== null && each !== undefined);
  if (MAPS.has(name)) {
    const lines = items.map(([key, each]) => `${indent}  ${hclText(key)} = ${hclText(String(each))}\n`);
    return `${indent}${name} = {\n${lines.join("")}${indent}}\n`;
  }
  return `${indent}${name} {\n${items.map(([key, each]) => hcl(key, each, `${indent}  `)).join("")}${indent}}\n`;
}

const hclValue = (value: unknown) => (typeof value === "string" ? hclText(value) : String(value));

export function asTerraform(spec: Spec): string {
  const label = String(spec.cluster_name ?? "cluster")
    .replace(/[^A-Za-z0-9_-]+/g, "_")
    .replace(/^[^A-Za-z_]+/, "");
  const lines = fields(spec).filter(([name]) => name !== "apply_policy_default_values" || spec.policy_id);
  return `resource "databricks_cluster" "${label || "cluster"}" {\n${lines.map(([name, value]) => hcl(name, value, "  ")).join("")}}\n`;
}
