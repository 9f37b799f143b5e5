import { Menu } from "@mantine/core";
import type { Cluster } from "../api/client";
import type { Act, ActionName } from "../clusters/actions";
import { nameOf } from "../clusters/facts";
import { MenuItems } from "../clusters/menuitems";
import { useWatch } from "../clusters/watch";
import { Icon } from "../kit/icons";
import { useFirstMenu } from "../kit/later";
import { IconButton } from "../kit/plain";

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
          <MenuItems cluster={cluster} names={fits} act={(name) => act(name, cluster)}>
            <WatchItem cluster={cluster} />
            <Menu.Item
              leftSection={<Icon name="copy" size={14} />}
              onClick={() => void navigator.clipboard?.writeText(cluster.cluster_id)}
            >
              Copy the id
            </Menu.Item>
          </MenuItems>
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
