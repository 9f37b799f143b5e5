import { Menu } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import type { Cluster } from "../api/client";
import { Icon } from "../kit/icons";
import { ACTIONS, type ActionName } from "./actions";
import { isOwned } from "./facts";
import type { May } from "./rights";

interface Props {
  cluster: Cluster;
  names: ActionName[]; // what can be done with it now, without what is offered beside the menu
  act: (name: ActionName) => void;
  may?: May; // as far as the page knows
  waits?: boolean; // for the server
  children?: ReactNode; // what only one place offers
}

const anything = () => true;

/** What a menu offers for a cluster, in the list and on its page. What cannot be undone comes last. */
export function MenuItems({ cluster, names, act, may = anything, waits = false, children }: Props) {
  const item = (name: ActionName) => (
    <Menu.Item
      key={name}
      leftSection={<Icon name={ACTIONS[name].icon} size={14} />}
      disabled={waits || !may(ACTIONS[name].takes)}
      onClick={() => act(name)}
    >
      {ACTIONS[name].label}
    </Menu.Item>
  );
  return (
    <>
      {names.filter((name) => name !== "delete").map(item)}
      {may("CAN_MANAGE") && !isOwned(cluster) && (
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
      {children}
      {names.includes("delete") && (
        <>
          <Menu.Divider />
          {item("delete")}
        </>
      )}
    </>
  );
}
