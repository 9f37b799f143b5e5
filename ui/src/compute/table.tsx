import { ActionIcon, Checkbox, Group, Popover, Stack, Tooltip } from "@mantine/core";
import { useCallbackRef, useMediaQuery } from "@mantine/hooks";
import {
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
import { useMemo, useRef, useState } from "react";
import type { Cluster } from "../api/client";
import { hasPrices } from "../api/queries";
import { Icon } from "../app/icons";
import { useRowKeys } from "../app/rowkeys";
import { useKept } from "../lib/kept";
import { columns, type Known } from "./columns";
import { type Act, ClusterRow, classOf } from "./row";

const CARD = 190; // pixels, about: cards are measured
const HEIGHTS = { comfortable: 44, compact: 28 };
type Density = keyof typeof HEIGHTS;

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
  const visible = table.getVisibleLeafColumns();
  const width = visible.length + 2;
  const actOn = useCallbackRef(act); // the same function always: rows are drawn again only for what changes them
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
                <ClusterRow
                  key={row.id}
                  row={row}
                  index={item.index}
                  columns={visible}
                  selected={row.getIsSelected()}
                  pinned={known.pinned.has(row.id)}
                  busy={busy.has(row.id)}
                  act={actOn}
                  measure={cards ? virtual.measureElement : undefined}
                />
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
