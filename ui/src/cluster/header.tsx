import { ActionIcon, Button, Group, Loader, Menu, Title, Tooltip } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { Cluster } from "../api/client";
import { pinnedQuery, pricesQuery, runtimesQuery, sparkVersionsOf } from "../api/queries";
import { FactList } from "../app/factlist";
import { Icon } from "../app/icons";
import { useWatch } from "../app/watch";
import { ACTIONS, type ActionName, useActions } from "../compute/actions";
import { accessOf, driverType, failed, hourly, isJob, money, nameOf, running, since, target } from "../compute/facts";
import { StateWord } from "../compute/state";
import { exactly, lasting, useNow } from "../lib/time";
import type { Level, May } from "./rights";
import type { Tab } from "./search";

const TAKES: Record<ActionName, Level> = {
  start: "CAN_RESTART",
  stop: "CAN_RESTART",
  restart: "CAN_RESTART",
  pin: "CAN_MANAGE",
  unpin: "CAN_MANAGE",
  delete: "CAN_MANAGE",
};
const IN_SIGHT: ActionName[] = ["start", "stop", "restart"];
const IN_MENU: ActionName[] = ["pin", "unpin", "delete"];

interface Props {
  cluster: Cluster;
  may: May;
  gone: boolean;
  open: (tab: Tab) => void;
}

export function Header({ cluster, may, gone, open }: Props) {
  const pinned = useQuery(pinnedQuery).data?.has(cluster.cluster_id) ?? false;
  const told = cluster.state === "PENDING" || cluster.state === "RESTARTING" || failed(cluster); // elsewhere on the page
  const said = told ? "" : cluster.state_message;
  return (
    <header className="head">
      <Group justify="space-between" align="flex-start" gap="xs">
        <Group gap="sm" className="title">
          <Title order={1} size="h3">
            {nameOf(cluster)}
          </Title>
          {pinned && (
            <span role="img" aria-label="Pinned">
              <Icon name="pin" size={14} />
            </span>
          )}
          <StateWord cluster={cluster} />
          <Since cluster={cluster} />
        </Group>
        {!gone && <Actions cluster={cluster} pinned={pinned} may={may} open={open} />}
      </Group>
      {said && <p className="said soft">{said}</p>}
      <Facts cluster={cluster} />
    </header>
  );
}

function Since({ cluster }: { cluster: Cluster }) {
  const now = useNow(1000);
  const then = since(cluster);
  if (then === undefined) return null;
  const word = cluster.state === "TERMINATED" ? "ended" : "started";
  return (
    <Tooltip label={exactly(then)}>
      <span className="soft">
        {word} {lasting(now - then)} ago
      </span>
    </Tooltip>
  );
}

function Actions({ cluster, pinned, may, open }: Omit<Props, "gone"> & { pinned: boolean }) {
  const { busy, act } = useActions();
  const waits = busy.has(cluster.cluster_id);
  const fits = (names: ActionName[]) => names.filter((name) => ACTIONS[name].fits(cluster, pinned));
  const why = (level: Level) => (may(level) ? undefined : `This takes ${level} on the cluster`);
  return (
    <Group gap={6}>
      {waits && <Loader size="xs" role="img" aria-label="Waiting for the server" />}
      {fits(IN_SIGHT).map((name) => (
        <Tooltip key={name} label={why(TAKES[name])} disabled={may(TAKES[name])}>
          <Button
            variant={name === "start" ? "filled" : "default"}
            leftSection={<Icon name={ACTIONS[name].icon} size={14} filled={name !== "restart"} />}
            disabled={waits || !may(TAKES[name])}
            onClick={() => void act(name, [cluster])}
          >
            {ACTIONS[name].label}
          </Button>
        </Tooltip>
      ))}
      <Watch cluster={cluster} />
      <Menu position="bottom-end" withinPortal>
        <Menu.Target>
          <ActionIcon variant="default" size={30} aria-label={`More actions on ${nameOf(cluster)}`}>
            <Icon name="more" />
          </ActionIcon>
        </Menu.Target>
        <Menu.Dropdown>
          {may("CAN_MANAGE") && !isJob(cluster) && (
            <Menu.Item
              renderRoot={(props) => (
                <Link {...props} to="/compute/clusters/$id/edit" params={{ id: cluster.cluster_id }} />
              )}
              leftSection={<Icon name="pencil" size={14} />}
            >
              Edit
            </Menu.Item>
          )}
          <Menu.Item
            renderRoot={(props) => <Link {...props} to="/compute/create" search={{ clone: cluster.cluster_id }} />}
            leftSection={<Icon name="plus" size={14} />}
          >
            Clone
          </Menu.Item>
          {fits(IN_MENU).map((name) => (
            <Menu.Item
              key={name}
              leftSection={<Icon name={ACTIONS[name].icon} size={14} />}
              disabled={waits || !may(TAKES[name])}
              onClick={() => void act(name, [cluster])}
            >
              {ACTIONS[name].label}
            </Menu.Item>
          ))}
          <Menu.Item leftSection={<Icon name="people" size={14} />} onClick={() => open("permissions")}>
            Permissions
          </Menu.Item>
        </Menu.Dropdown>
      </Menu>
    </Group>
  );
}

function Watch({ cluster }: { cluster: Cluster }) {
  const [on, change] = useWatch(cluster);
  return (
    <Tooltip label={on ? "Stop watching" : "Watch: tell me when it runs, fails or ends"}>
      <ActionIcon
        variant={on ? "light" : "default"}
        size={30}
        aria-label={`Watch ${nameOf(cluster)}`}
        aria-pressed={on}
        onClick={change}
      >
        <Icon name="eye" size={14} />
      </ActionIcon>
    </Tooltip>
  );
}

/** What a phone leaves to the configuration. */
const LESS = new Set(["Runtime", "Access mode", "Creator"]);

function Facts({ cluster }: { cluster: Cluster }) {
  const prices = useQuery(pricesQuery).data;
  const runtimes = useQuery(runtimesQuery).data;
  const spend = hourly(cluster, prices?.perHour);
  const facts: [string, string][] = [
    ["Runtime", sparkVersionsOf(runtimes, cluster.spark_version)],
    ["Driver", driverType(cluster)],
    ["Workers", `${running(cluster)} / ${target(cluster)}${cluster.node_type_id ? ` ${cluster.node_type_id}` : ""}`],
  ];
  if (cluster.cluster_cores)
    facts.push(["Now", `${cluster.cluster_cores} cores, ${Math.round((cluster.cluster_memory_mb ?? 0) / 1024)} GiB`]);
  if (spend !== undefined && spend > 0) facts.push(["Spend per hour", money(spend, prices?.currency ?? "USD")]);
  facts.push(["Access mode", accessOf(cluster)], ["Creator", cluster.creator_user_name ?? ""]);
  return <FactList facts={facts} id={cluster.cluster_id} less={LESS} />;
}
