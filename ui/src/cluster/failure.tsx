import { Alert, Button, Group, Text } from "@mantine/core";
import type { Cluster } from "../api/client";
import { failed } from "../clusters/facts";
import { CopyButton } from "../kit/copy";
import { Icon } from "../kit/icons";
import type { Tab } from "./search";

/** What to do about the reasons for which clusters end here. */
const REMEDIES: Record<string, string> = {
  BOOTSTRAP_TIMEOUT: "A node did not start in time. Check its log, then start the cluster again.",
  CLOUD_PROVIDER_LAUNCH_FAILURE:
    "The provider could not start a node. If the message gives no reason, see the server's log.",
  CLOUD_PROVIDER_RESOURCE_STOCKOUT:
    "There is no capacity for this node type now. Stop another cluster, choose a smaller node type or fewer workers, or try again later.",
  CLOUD_PROVIDER_SHUTDOWN: "The machine or the server was shut down. Start the cluster again.",
  DRIVER_OUT_OF_MEMORY:
    "The driver ran out of memory. Choose a larger driver type, or collect less data to the driver.",
  DRIVER_UNEXPECTED_FAILURE: "The driver process exited. The end of its stderr usually shows why.",
  DRIVER_UNREACHABLE: "The driver's instance is gone or cannot be reached. Start the cluster again.",
  DRIVER_UNRESPONSIVE:
    "The driver stopped responding, often because of garbage collection. Check its memory in the metrics, and choose a larger driver type.",
  GLOBAL_INIT_SCRIPT_FAILURE:
    "A global init script failed. Its output is in the driver logs. An administrator can fix or disable it.",
  INIT_SCRIPT_FAILURE:
    "An init script failed. Its output is in the driver logs. Fix the script, then start the cluster.",
  INSTANCE_POOL_MAX_CAPACITY_REACHED:
    "All instances of the pool are in use. Try again later, or raise the pool's max capacity.",
  INSTANCE_POOL_NOT_FOUND: "The pool was deleted. Edit the cluster and choose another pool or a node type.",
  INVALID_ARGUMENT: "The cluster cannot start with this configuration. Edit the cluster.",
  SECRET_PERMISSION_DENIED:
    "The cluster's owner has no access to a secret in the configuration. Ask for READ on its scope.",
  SECRET_RESOLUTION_ERROR: "A secret in the configuration does not exist. Create it, or edit the cluster.",
  SPARK_STARTUP_FAILURE: "Spark did not start, often because of the Spark configuration. See the driver's log.",
  SPOT_INSTANCE_TERMINATION: "The driver's spot instance was reclaimed. Run the driver on demand (first_on_demand: 1).",
  STORAGE_DOWNLOAD_FAILURE: "A file in the configuration could not be read. Check that it exists and is readable.",
  UNSUPPORTED_INSTANCE_TYPE: "The node type is no longer available. Edit the cluster and choose another one.",
};

/** Says why a cluster ended that nobody has stopped, and what to do. */
export function Failure({ cluster, open }: { cluster: Cluster; open: (tab: Tab) => void }) {
  const reason = cluster.termination_reason;
  if (!failed(cluster) || reason == null) return null;
  const code = reason.code ?? "UNKNOWN";
  const said = cluster.state_message ?? "";
  const parameters = Object.entries(reason.parameters ?? {}).filter(([, value]) => !said.includes(value));
  const details = JSON.stringify(
    { cluster_id: cluster.cluster_id, state_message: cluster.state_message, termination_reason: reason },
    null,
    2,
  );
  return (
    <Alert
      className="failure"
      color="red"
      variant="light"
      icon={<Icon name="alert" />}
      title={`The cluster failed: ${code}`}
    >
      <Text className="said">{said || parameters.map(([, value]) => value).join(" ")}</Text>
      {REMEDIES[code] && (
        <Text mt={4} className="remedy">
          {REMEDIES[code]}
        </Text>
      )}
      {parameters.length > 0 && (
        <dl className="facts">
          {parameters.map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ))}
        </dl>
      )}
      <Group gap="xs" mt="xs">
        <Button variant="default" onClick={() => open("logs")}>
          Driver logs
        </Button>
        <Button variant="default" onClick={() => open("events")}>
          Event log
        </Button>
        <CopyButton text={details} label="Copy the details" />
      </Group>
    </Alert>
  );
}
