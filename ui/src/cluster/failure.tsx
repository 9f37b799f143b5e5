import { Alert, Button, Group, Text, Tooltip } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import type { Cluster } from "../api/client";
import { offered } from "../api/session";
import { useActions } from "../clusters/actions";
import { failed, isOwned } from "../clusters/facts";
import type { Level, May } from "../clusters/rights";
import { CopyButton } from "../kit/copy";
import { Icon } from "../kit/icons";
import { Scroller } from "../kit/scroller";
import { explain } from "./explain";
import type { TabProps } from "./tab";

interface Props {
  cluster: Cluster;
  may: May;
  open: TabProps["open"];
}

/** Says why a cluster ended that nobody has stopped, and what to do. */
export function Failure({ cluster, may, open }: Props) {
  const { act, busy } = useActions();
  const [unfolded, unfold] = useState(false);
  if (!failed(cluster) || cluster.termination_reason == null) return null;
  const { code, what, todo, log, facts, instance, headline } = explain(cluster);
  const id = cluster.cluster_id;
  const details = JSON.stringify(
    { cluster_id: id, state_message: cluster.state_message, termination_reason: cluster.termination_reason },
    null,
    2,
  );
  const why = (level: Level) => (may(level) ? undefined : `You need ${level} on this cluster`);
  const ours = !isOwned(cluster); // a run's or a warehouse's is not edited by itself
  return (
    <Alert
      className="failure"
      color="red"
      variant="light"
      icon={<Icon name="alert" />}
      title={`The cluster failed: ${code}`}
    >
      <Text className="said">{what}</Text>
      {todo && (
        <Text mt={4} className="remedy said">
          <b>What to do:</b> {todo}
        </Text>
      )}
      {facts.length > 0 && (
        <dl className="facts">
          {facts.map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ))}
        </dl>
      )}
      <Group gap="xs" mt="xs">
        {ours && (
          <Tooltip label={why("CAN_MANAGE")} disabled={may("CAN_MANAGE")}>
            <Button
              variant="default"
              leftSection={<Icon name="pencil" size={14} />}
              disabled={!may("CAN_MANAGE")}
              renderRoot={
                may("CAN_MANAGE")
                  ? (props) => <Link {...props} to="/compute/clusters/$id/edit" params={{ id }} />
                  : undefined
              }
            >
              Edit
            </Button>
          </Tooltip>
        )}
        {ours && cluster.state === "TERMINATED" && (
          <Tooltip label={why("CAN_RESTART")} disabled={may("CAN_RESTART")}>
            <Button
              variant="default"
              leftSection={<Icon name="play" size={14} filled />}
              disabled={!may("CAN_RESTART")}
              loading={busy.has(id)}
              onClick={() => void act("start", [cluster])}
            >
              Start again
            </Button>
          </Tooltip>
        )}
        {instance !== "" && offered("/api/2.1/clusters/logs/list") && (
          <Tooltip label={why("CAN_MANAGE")} disabled={may("CAN_MANAGE")}>
            <Button
              variant="default"
              disabled={!may("CAN_MANAGE")}
              onClick={() => open("logs", { node: instance, find: headline || undefined })}
            >
              Logs
            </Button>
          </Tooltip>
        )}
        <Button variant="default" onClick={() => open("events")}>
          Event log
        </Button>
        <CopyButton text={details} label="Copy the details" />
        {log && (
          <Button
            variant="subtle"
            color="gray"
            aria-expanded={unfolded}
            leftSection={<Icon name={unfolded ? "up" : "down"} size={14} />}
            onClick={() => unfold(!unfolded)}
          >
            Last lines of the log
          </Button>
        )}
      </Group>
      {log && unfolded && (
        <Scroller className="code tail" label="Last lines of the log">
          {log}
        </Scroller>
      )}
    </Alert>
  );
}
