import { ActionIcon, Button, Loader, Menu, Tooltip } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { Cluster } from "../api/client";
import { pinnedQuery, pricesQuery, runtimesQuery, sparkVersionsOf } from "../api/queries";
import { ACTIONS, type ActionName, fitting, useActions } from "../clusters/actions";
import {
  accessOf,
  driverType,
  failed,
  hourly,
  isWarehouse,
  money,
  nameOf,
  running,
  runOf,
  since,
  target,
} from "../clusters/facts";
import { RunLink, WarehouseLink } from "../clusters/links";
import { MenuItems } from "../clusters/menuitems";
import type { Level, May } from "../clusters/rights";
import { StateWord } from "../clusters/state";
import { useWatch } from "../clusters/watch";
import { type Fact, FactList } from "../kit/factlist";
import { Icon } from "../kit/icons";
import { ObjectHead } from "../kit/objectpage";
import { exactly, lasting, useNow } from "../lib/time";
import type { Tab } from "./search";

const IN_SIGHT: ActionName[] = ["start", "stop", "restart"];

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
    <ObjectHead
      topic="ui"
      name={nameOf(cluster)}
      beside={
        <>
          {pinned && (
            <span role="img" aria-label="Pinned">
              <Icon name="pin" size={14} />
            </span>
          )}
          <StateWord cluster={cluster} />
          <Since cluster={cluster} />
        </>
      }
      actions={!gone && <Actions cluster={cluster} pinned={pinned} may={may} open={open} />}
      said={said}
    >
      <Facts cluster={cluster} />
    </ObjectHead>
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
  const why = (level: Level) => (may(level) ? undefined : `You need ${level} on this cluster`);
  return (
    <>
      {waits && <Loader size="xs" role="img" aria-label="Waiting for the server" />}
      {IN_SIGHT.filter((name) => ACTIONS[name].fits(cluster, pinned)).map((name) => (
        <Tooltip key={name} label={why(ACTIONS[name].takes)} disabled={may(ACTIONS[name].takes)}>
          <Button
            variant={name === "start" ? "filled" : "default"}
            leftSection={<Icon name={ACTIONS[name].icon} size={14} filled={name !== "restart"} />}
            disabled={waits || !may(ACTIONS[name].takes)}
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
          <MenuItems
            cluster={cluster}
            names={fitting(cluster, pinned).filter((name) => !IN_SIGHT.includes(name))}
            act={(name) => void act(name, [cluster])}
            may={may}
            waits={waits}
          >
            <Menu.Item leftSection={<Icon name="people" size={14} />} onClick={() => open("permissions")}>
              Permissions
            </Menu.Item>
          </MenuItems>
        </Menu.Dropdown>
      </Menu>
    </>
  );
}

function Watch({ cluster }: { cluster: Cluster }) {
  const [on, change] = useWatch(cluster);
  return (
    <Tooltip label={on ? "Stop watching" : "Watch: notify me when it runs, fails or terminates"}>
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
  const run = runOf(cluster);
  const facts: Fact[] = [
    ["Runtime", sparkVersionsOf(runtimes, cluster.spark_version)],
    ["Driver", driverType(cluster)],
    ["Workers", `${running(cluster)} / ${target(cluster)}${cluster.node_type_id ? ` ${cluster.node_type_id}` : ""}`],
  ];
  if (cluster.cluster_cores)
    facts.push(["Now", `${cluster.cluster_cores} cores, ${Math.round((cluster.cluster_memory_mb ?? 0) / 1024)} GiB`]);
  if (spend !== undefined && spend > 0) facts.push(["Spend per hour", money(spend, prices?.currency ?? "USD")]);
  if (run) facts.push(["Run", <RunLink key="run" id={run} />]);
  if (isWarehouse(cluster)) facts.push(["SQL warehouse", <WarehouseLink key="warehouse" cluster={cluster} />]);
  facts.push(["Access mode", accessOf(cluster)], ["Creator", cluster.creator_user_name ?? ""]);
  return <FactList facts={facts} id={cluster.cluster_id} less={LESS} />;
}
