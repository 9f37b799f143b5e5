import { ActionIcon, Checkbox, Group, Loader, Menu, Popover, Stack, Tooltip } from "@mantine/core";
import { useMediaQuery } from "@mantine/hooks";
import { Link } from "@tanstack/react-router";
import {
  type Cell,
  type Column,
  getCoreRowModel,
  getSortedRowModel,
  type Row,
  type RowSelectionState,
  type SortingState,
  type Table,
  useReactTable,
  type VisibilityState,
} from "@tanstack/react-table";
import { useVirtualizer } from "@tanstack/react-virtual";
import { type ReactNode, useMemo, useRef, useState } from "react";
import type { Cluster } from "../api/client";
import { hasPrices } from "../api/queries";
import { Icon } from "../app/icons";
import { useRowKeys } from "../app/rowkeys";
import { useWatch } from "../app/watch";
import { useKept } from "../lib/kept";
import { ACTIONS, type ActionName } from "./actions";
import { columns, type Known } from "./columns";
import { isJob, nameOf } from "./facts";

const CARD = 190; // pixels, about: cards are measured
const HEIGHTS = { comfortable: 44, compact: 28 };
type Density = keyof typeof HEIGHTS;
type Act = (name: ActionName, cluster: Cluster) => void;

interface Props {
  clusters: Cluster[];
  known: Known;
  sort: string | undefined;
  onSort: (sort: string | undefined) => void;
  selected: RowSelectionState;
  onSelected: (selected: RowSelectionState) => void;
  busy: ReadonlySet<string>;
  act: Act;
}

export function ClusterTable(props: Props) {
  const { clusters, known, sort, onSort, selected, onSelected, busy, act } = props;
  const [hidden, setHidden] = useKept<VisibilityState>("columns", {
    access: true,
    tags: false,
    policy: false,
    pool: false,
  });
  const [density, setDensity] = useKept<Density>("density", "comfortable");
  const cards = useMediaQuery("(max-width: 640px)", matchMedia("(max-width: 640px)").matches);
  const [over, setOver] = useState<string[] | null>(null);
  const sorting = useMemo<SortingState>(
    () => (sort ? [{ id: sort.replace(/^-/, ""), desc: sort.startsWith("-") }] : []),
    [sort],
  );
  const table = useReactTable({
    data: clusters,
    columns: useMemo(() => columns(known).filter((each) => each.id !== "spend" || hasPrices()), [known]),
    state: { sorting, rowSelection: selected, columnVisibility: hidden },
    autoResetPageIndex: false, // there are no pages, and a reset would draw the table again
    getRowId: (cluster) => cluster.cluster_id,
    getCoreRowModel: getCoreRowModel(),
    getSortedRowModel: getSortedRowModel(),
    onSortingChange: (update) => {
      const [next] = typeof update === "function" ? update(sorting) : update;
      onSort(next && `${next.desc ? "-" : ""}${next.id}`);
    },
    onRowSelectionChange: (update) => onSelected(typeof update === "function" ? update(selected) : update),
    onColumnVisibilityChange: (update) => setHidden(typeof update === "function" ? update(hidden) : update),
  });
  const rows = inOrder(table.getRowModel().rows, over);
  const scroller = useRef<HTMLElement>(null);
  const virtual = useVirtualizer<HTMLElement, Element>({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => (cards ? CARD : HEIGHTS[density]),
    getItemKey: (index) => rows[index]?.id ?? index,
    overscan: 6,
  });
  useRowKeys(rows.length, (index) => virtual.scrollToIndex(index));
  const items = virtual.getVirtualItems();
  const before = items[0]?.start ?? 0;
  const after = virtual.getTotalSize() - (items.at(-1)?.end ?? 0);
  const width = table.getVisibleLeafColumns().length + 2;
  return (
    <>
      <Group justify="space-between" gap={6} className="above">
        <span className="soft">
          {clusters.length} {clusters.length === 1 ? "cluster" : "clusters"}
        </span>
        <Group gap={4}>
          <Tooltip label={density === "compact" ? "Higher rows" : "Compact rows"}>
            <ActionIcon
              variant="subtle"
              color="gray"
              aria-label="Compact rows"
              aria-pressed={density === "compact"}
              onClick={() => setDensity(density === "compact" ? "comfortable" : "compact")}
            >
              <Icon name="rows" />
            </ActionIcon>
          </Tooltip>
          <Columns table={table} />
        </Group>
      </Group>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable with the keyboard */}
      <section className="scroller" ref={scroller} aria-label="List of clusters" tabIndex={0}>
        {/* Rows do not change places under the pointer: a new order waits until it has left. */}
        <table
          className={`clusters ${density}`}
          aria-rowcount={rows.length + 1}
          onPointerEnter={() => setOver(rows.map((row) => row.id))}
          onPointerLeave={() => setOver(null)}
        >
          <thead>
            <Head table={table} />
          </thead>
          <tbody>
            {before > 0 && <Space height={before} width={width} />}
            {items.map((item) => {
              const row = rows[item.index];
              return row === undefined ? null : (
                <tr
                  key={row.id}
                  data-index={item.index}
                  aria-rowindex={item.index + 2}
                  data-selected={row.getIsSelected() || undefined}
                  ref={cards ? virtual.measureElement : undefined}
                >
                  <td className="check">
                    <Checkbox
                      aria-label={`Select ${nameOf(row.original)}`}
                      checked={row.getIsSelected()}
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
                    <RowActions
                      cluster={row.original}
                      pinned={known.pinned.has(row.id)}
                      busy={busy.has(row.id)}
                      act={act}
                    />
                  </td>
                </tr>
              );
            })}
            {after > 0 && <Space height={after} width={width} />}
          </tbody>
        </table>
      </section>
    </>
  );
}

/** The rows in the order that they had under the pointer; new ones come last. */
function inOrder(rows: Row<Cluster>[], before: string[] | null): Row<Cluster>[] {
  if (before === null) return rows;
  const place = new Map(before.map((id, at) => [id, at]));
  return [...rows].sort((one, other) => (place.get(one.id) ?? before.length) - (place.get(other.id) ?? before.length));
}

/** What is in a cell. Called, not made a component of: with new names or prices it would be another one, and all be drawn anew. */
function drawn(cell: Cell<Cluster, unknown>): ReactNode {
  const { cell: draw } = cell.column.columnDef;
  return typeof draw === "function" ? (draw(cell.getContext()) as ReactNode) : draw;
}

const classOf = (column: Column<Cluster>) => (column.columnDef.meta?.figures ? `${column.id} figures` : column.id);

/** Stands for the rows that are not drawn. */
function Space({ height, width }: { height: number; width: number }) {
  return (
    <tr className="space">
      <td colSpan={width} style={{ height }} />
    </tr>
  );
}

function Head({ table }: { table: Table<Cluster> }) {
  return (
    <tr>
      <th className="check" scope="col">
        <Checkbox
          aria-label="Select all clusters shown"
          checked={table.getIsAllRowsSelected()}
          indeterminate={table.getIsSomeRowsSelected()}
          onChange={table.getToggleAllRowsSelectedHandler()}
        />
      </th>
      {table.getFlatHeaders().map(({ column }) => {
        const sorted = column.getIsSorted();
        const label = column.columnDef.meta?.label;
        return (
          <th
            key={column.id}
            scope="col"
            className={classOf(column)}
            aria-sort={sorted ? (sorted === "asc" ? "ascending" : "descending") : undefined}
          >
            {column.getCanSort() ? (
              <button type="button" onClick={column.getToggleSortingHandler()}>
                {label}
                {sorted && <Icon name={sorted === "asc" ? "up" : "down"} size={12} />}
              </button>
            ) : (
              label
            )}
          </th>
        );
      })}
      <th className="actions" scope="col">
        <span className="unseen">Actions</span>
      </th>
    </tr>
  );
}

function Columns({ table }: { table: Table<Cluster> }) {
  return (
    <Popover position="bottom-end" shadow="md" withinPortal trapFocus>
      <Popover.Target>
        <Tooltip label="Columns">
          <ActionIcon variant="subtle" color="gray" aria-label="Choose columns">
            <Icon name="columns" />
          </ActionIcon>
        </Tooltip>
      </Popover.Target>
      <Popover.Dropdown aria-label="Columns">
        <Stack gap={8}>
          {table
            .getAllLeafColumns()
            .filter((column) => column.getCanHide())
            .map((column) => (
              <Checkbox
                key={column.id}
                label={column.columnDef.meta?.label}
                checked={column.getIsVisible()}
                onChange={column.getToggleVisibilityHandler()}
              />
            ))}
        </Stack>
      </Popover.Dropdown>
    </Popover>
  );
}

function RowActions({ cluster, pinned, busy, act }: { cluster: Cluster; pinned: boolean; busy: boolean; act: Act }) {
  const [opened, setOpened] = useState<boolean>(); // undefined: never opened, and no menu is made
  const fits = (Object.keys(ACTIONS) as ActionName[]).filter((name) => ACTIONS[name].fits(cluster, pinned));
  const first = fits.find((name) => name === "start" || name === "stop");
  const more = { variant: "subtle", color: "gray", "aria-label": `Actions on ${nameOf(cluster)}` };
  if (busy) return <Loader size="xs" role="img" aria-label="Waiting for the server" />;
  return (
    <Group gap={2} wrap="nowrap" justify="flex-end">
      {first && (
        <Tooltip label={ACTIONS[first].label}>
          <ActionIcon
            variant="subtle"
            color="gray"
            aria-label={`${ACTIONS[first].label} ${nameOf(cluster)}`}
            onClick={() => act(first, cluster)}
          >
            <Icon name={ACTIONS[first].icon} size={14} filled />
          </ActionIcon>
        </Tooltip>
      )}
      {opened === undefined ? (
        <ActionIcon {...more} aria-haspopup="menu" aria-expanded={false} onClick={() => setOpened(true)}>
          <Icon name="more" />
        </ActionIcon>
      ) : (
        <Menu opened={opened} onChange={setOpened} position="bottom-end" withinPortal>
          <Menu.Target>
            <ActionIcon {...more}>
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
