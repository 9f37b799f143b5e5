import { ActionIcon, Checkbox, Group, Loader, Menu } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import type { Cell, Column, Row } from "@tanstack/react-table";
import { memo, type ReactNode, useEffect, useRef, useState } from "react";
import type { Cluster } from "../api/client";
import { Icon } from "../app/icons";
import { useWatch } from "../app/watch";
import { ACTIONS, type ActionName } from "./actions";
import { isJob, nameOf } from "./facts";

export type Act = (name: ActionName, cluster: Cluster) => void;

interface Props {
  row: Row<Cluster>;
  index: number;
  columns: Column<Cluster>[]; // those that are shown
  selected: boolean;
  pinned: boolean;
  busy: boolean;
  act: Act;
  measure: ((row: HTMLElement | null) => void) | undefined; // where rows differ in height
}

/** A row of the list. It is drawn again only if one of its properties has changed: most of scrolling is drawing. */
export const ClusterRow = memo(function ClusterRow({ row, index, selected, pinned, busy, act, measure }: Props) {
  return (
    <tr data-index={index} aria-rowindex={index + 2} data-selected={selected || undefined} ref={measure}>
      <td className="check">
        <Checkbox
          aria-label={`Select ${nameOf(row.original)}`}
          checked={selected}
          onChange={row.getToggleSelectedHandler()}
        />
      </td>
      {row.getVisibleCells().map((cell) => (
        <td
          key={cell.id}
          className={classOf(cell.column)}
          title={typeof cell.getValue() === "string" ? cell.getValue<string>() : undefined}
          data-label={cell.column.columnDef.meta?.label}
        >
          {drawn(cell)}
        </td>
      ))}
      <td className="actions">
        <RowActions cluster={row.original} pinned={pinned} busy={busy} act={act} />
      </td>
    </tr>
  );
});

/** What is in a cell. Called, not made a component of: with new names or prices it would be another one, and all be drawn anew. */
function drawn(cell: Cell<Cluster, unknown>): ReactNode {
  const { cell: draw } = cell.column.columnDef;
  return typeof draw === "function" ? (draw(cell.getContext()) as ReactNode) : draw;
}

export const classOf = (column: Column<Cluster>) =>
  column.columnDef.meta?.figures ? `${column.id} figures` : column.id;

function RowActions({ cluster, pinned, busy, act }: { cluster: Cluster; pinned: boolean; busy: boolean; act: Act }) {
  const [opened, setOpened] = useState<boolean>(); // undefined: never opened, and no menu is made
  const fits = (Object.keys(ACTIONS) as ActionName[]).filter((name) => ACTIONS[name].fits(cluster, pinned));
  const first = fits.find((name) => name === "start" || name === "stop");
  const more = { variant: "subtle", color: "gray", "aria-label": `Actions on ${nameOf(cluster)}` };
  const button = useRef<HTMLButtonElement>(null);
  // The first opening makes another button, which gets the focus, so that it returns there when the menu is closed.
  useEffect(() => {
    if (opened) button.current?.focus();
  }, [opened]);
  if (busy) return <Loader size="xs" role="img" aria-label="Waiting for the server" />;
  return (
    <Group gap={2} wrap="nowrap" justify="flex-end">
      {first && (
        <ActionIcon
          variant="subtle"
          color="gray"
          title={ACTIONS[first].label}
          aria-label={`${ACTIONS[first].label} ${nameOf(cluster)}`}
          onClick={() => act(first, cluster)}
        >
          <Icon name={ACTIONS[first].icon} size={14} filled />
        </ActionIcon>
      )}
      {opened === undefined ? (
        <ActionIcon {...more} aria-haspopup="menu" aria-expanded={false} onClick={() => setOpened(true)}>
          <Icon name="more" />
        </ActionIcon>
      ) : (
        <Menu opened={opened} onChange={setOpened} returnFocus position="bottom-end" withinPortal>
          <Menu.Target>
            <ActionIcon {...more} ref={button}>
              <Icon name="more" />
            </ActionIcon>
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
      )}
    </Group>
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
