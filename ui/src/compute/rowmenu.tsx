import { Menu } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import type { Cluster } from "../api/client";
import { Icon } from "../app/icons";
import { useFirstMenu } from "../app/later";
import { IconButton } from "../app/plain";
import { useWatch } from "../app/watch";
import { ACTIONS, type ActionName } from "./actions";
import { isJob, nameOf } from "./facts";
import type { Act } from "./row";

/** All that can be done with a cluster of the list. It is opened as it is made. */
export default function RowMenu({ cluster, fits, act }: { cluster: Cluster; fits: ActionName[]; act: Act }) {
  const { opened, setOpened, button } = useFirstMenu();
  return (
    <Menu opened={opened} onChange={setOpened} returnFocus position="bottom-end" withinPortal>
      <Menu.Target>
        <IconButton ref={button} aria-label={`Actions on ${nameOf(cluster)}`}>
          <Icon name="more" />
        </IconButton>
      </Menu.Target>
      {opened && (
        <Menu.Dropdown>
          {fits.map((name) => (
            <Menu.Item
              key={name}
              leftSection={<Icon name={ACTIONS[name].icon} size={14} />}
              onClick={() => act(name, cluster)}
            >
              {ACTIONS[name].label}
            </Menu.Item>
          ))}
          {!isJob(cluster) && (
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
          <WatchItem cluster={cluster} />
          <Menu.Item
            leftSection={<Icon name="copy" size={14} />}
            onClick={() => void navigator.clipboard?.writeText(cluster.cluster_id)}
          >
            Copy the id
          </Menu.Item>
        </Menu.Dropdown>
      )}
    </Menu>
  );
}

function WatchItem({ cluster }: { cluster: Cluster }) {
  const [on, change] = useWatch(cluster);
  return (
    <Menu.Item leftSection={<Icon name="eye" size={14} />} onClick={change}>
      {on ? "Stop watching" : "Watch"}
    </Menu.Item>
  );
}
