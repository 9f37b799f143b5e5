import { Alert, Button, Group, Text } from "@mantine/core";
import type { Cluster } from "../api/client";
import { CopyButton } from "../app/copy";
import { Icon } from "../app/icons";
import { failed } from "../compute/facts";
import type { Tab } from "./search";

/** What to do about the reasons for which clusters end here. */
const REMEDIES: Record<string, string> = {
  BOOTSTRAP_TIMEOUT: "A node did not come up in time. Its log says how far it got; then start the cluster again.",
  CLOUD_PROVIDER_LAUNCH_FAILURE:
    "The provider could not start a node. If the message names no reason, the server's log does.",
  CLOUD_PROVIDER_RESOURCE_STOCKOUT:
    "There is no room for a node of that type now. Stop another cluster, choose a smaller node type or fewer workers, or start it later.",
  CLOUD_PROVIDER_SHUTDOWN: "The machine or the server was shut down. Start the cluster again.",
  DRIVER_OUT_OF_MEMORY:
    "The driver has used all its memory. Choose a larger driver type, or collect less data into the driver.",
  DRIVER_UNEXPECTED_FAILURE: "The driver's process ended. The end of its stderr usually says why.",
  DRIVER_UNREACHABLE: "The driver's instance is gone or cannot be reached. Start the cluster again.",
  DRIVER_UNRESPONSIVE:
    "The driver did not answer: it is often busy with garbage collection. Look at its memory in the metrics, and choose a larger driver type.",
  GLOBAL_INIT_SCRIPT_FAILURE:
    "A global init script has failed. Its output is among the driver logs; an administrator can repair or disable it.",
  INIT_SCRIPT_FAILURE:
    "An init script has failed. Its output is among the driver logs; repair the script, then start the cluster.",
  INSTANCE_POOL_MAX_CAPACITY_REACHED: "All instances of the pool are in use. Wait, or raise the pool's maximum.",
  INSTANCE_POOL_NOT_FOUND: "The pool is gone. Edit the cluster, and choose another pool or a node type.",
  INVALID_ARGUMENT: "The configuration cannot be started as it is. Edit the cluster.",
  SECRET_PERMISSION_DENIED:
    "The cluster's owner may not read a secret that the configuration refers to. Ask for READ on its scope.",
  SECRET_RESOLUTION_ERROR: "A secret that the configuration refers to does not exist. Create it, or edit the cluster.",
  SPARK_STARTUP_FAILURE:
    "Spark did not start. The Spark configuration is often the reason; the driver's log says more.",
  SPOT_INSTANCE_TERMINATION:
    "The driver's spot instance was taken back. Put the driver on demand (first_on_demand: 1).",
  STORAGE_DOWNLOAD_FAILURE:
    "A file that the configuration names could not be read. See that it exists and may be read.",
  UNSUPPORTED_INSTANCE_TYPE: "The node type is no longer offered. Edit the cluster, and choose another one.",
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
      title={`The cluster has failed: ${code}`}
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
