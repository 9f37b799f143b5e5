import { useCallbackRef, useMediaQuery } from "@mantine/hooks";
import { useRouter } from "@tanstack/react-router";
import type { OnChangeFn, Table } from "@tanstack/react-table";
import { useVirtualizer } from "@tanstack/react-virtual";
import { type ChangeEvent, lazy, Suspense, useEffect, useMemo, useRef, useState } from "react";
import type { Cluster } from "../api/client";
import { hasPrices } from "../api/queries";
import { ACTIONS, type Act } from "../clusters/actions";
import { failed, isOwned } from "../clusters/facts";
import { classOf, Heads, narrow, Widths, widthOf } from "../kit/datatable";
import { Icon } from "../kit/icons";
import { later } from "../kit/later";
import { type Features, type Hidden, type Selected, useListing } from "../kit/listing";
import { inOrder } from "../kit/order";
import { IconButton, Tick } from "../kit/plain";
import { useRowKeys } from "../kit/rowkeys";
import { useKept } from "../lib/kept";
import { count } from "../lib/sizes";
import { useNow } from "../lib/time";
import { columns as allColumns, type ChoiceProps, type Known } from "./columns";
import { ClusterRow, editOf } from "./row";

const ColumnMenu = lazy(later(() => import("./columnmenu")));

const MINUTE = 60_000;
const SOON_MS = 300;
/** Until the reader chooses: what all clusters have, as far as there is room for it. */
const HIDDEN: Hidden = { tags: false, policy: false, pool: false };
const ROOM = "(min-width: 1280px)"; // for the last activity
const CARD = 210; // pixels, about: cards are measured
const CARDS = "(max-width: 800px)"; // as in lists.css
const HEIGHTS = { comfortable: 44, compact: 28 };
const REASON = 18; // a comfortable row of a failed cluster is higher by so much
const ABOVE = 240; // pixels, about, from the window's top to the first row
const AROUND = 6; // rows that are drawn before and after those that are seen
const CHECK = 36;
const BUTTONS = 104;
type Density = keyof typeof HEIGHTS;

interface Props {
  clusters: Cluster[];
  known: Known;
  sort: string | undefined; // a column's id, with a minus for descending
  onSort: (sort: string | undefined) => void;
  selected: Selected;
  onSelected: OnChangeFn<Selected>;
  busy: ReadonlySet<string>;
  act: Act;
}

const idOf = (cluster: Cluster) => cluster.cluster_id;

export function ClusterTable({ clusters, known, sort, onSort, selected, onSelected, busy, act }: Props) {
  const [kept, setHidden] = useKept<Hidden | null>("columns", null);
  const activity = useMediaQuery(ROOM, matchMedia(ROOM).matches);
  const hidden = useMemo(() => kept ?? { ...HIDDEN, activity }, [kept, activity]);
  const [density, setDensity] = useKept<Density>("density", "comfortable");
  const cards = useMediaQuery(CARDS, matchMedia(CARDS).matches);
  const [over, setOver] = useState<string[] | null>(null);
  const now = useNow(MINUTE);
  const columns = useMemo(
    () => allColumns(known, now).filter((each) => each.id !== "spend" || hasPrices()),
    [known, now],
  );
  const table = useListing({
    rows: clusters,
    idOf,
    columns,
    sort,
    onSort,
    hidden,
    onHidden: setHidden,
    selected,
    onSelected,
  });
  const rows = inOrder(table.getRowModel().rows, over);
  const visible = table.getVisibleLeafColumns();
  const scroller = useRef<HTMLElement>(null);
  const [around, setAround] = useState(0); // the first look has what is seen, and nothing else
  useEffect(() => {
    const timer = setTimeout(() => setAround(AROUND), SOON_MS);
    return () => clearTimeout(timer);
  }, []);
  const virtual = useVirtualizer<HTMLElement, Element>({
    count: rows.length,
    getScrollElement: () => scroller.current,
    initialRect: { width: innerWidth, height: innerHeight - ABOVE }, // so that the first look has rows
    estimateSize: (index) => {
      if (cards) return CARD;
      const reason = density === "comfortable" && rows[index] !== undefined && failed(rows[index].original);
      return HEIGHTS[density] + (reason ? REASON : 0);
    },
    getItemKey: (index) => rows[index]?.id ?? index,
    overscan: around,
  });
  // Cards were measured at another width, and rows are not cards.
  const measured = useRef({ cards, window: innerWidth });
  useEffect(() => {
    const again = () => {
      const now = { cards, window: innerWidth };
      const changed = now.cards !== measured.current.cards || (cards && now.window !== measured.current.window);
      measured.current = now;
      if (changed) virtual.measure();
    };
    again();
    addEventListener("resize", again);
    return () => removeEventListener("resize", again);
  }, [cards, virtual]);
  const { history } = useRouter();
  const on = (does: (cluster: Cluster) => void) => (index: number) => {
    const cluster = rows[index]?.original;
    if (cluster !== undefined && !busy.has(cluster.cluster_id)) does(cluster);
  };
  useRowKeys(rows.length, {
    show: (index) => virtual.scrollToIndex(index),
    keys: {
      e: on((cluster) => !isOwned(cluster) && history.push(editOf(cluster))),
      r: on((cluster) => ACTIONS.restart.fits(cluster, false) && act("restart", cluster)),
      c: on((cluster) => history.push(`/compute/create?${new URLSearchParams({ clone: cluster.cluster_id })}`)),
    },
  });
  const items = virtual.getVirtualItems();
  const before = items[0]?.start ?? 0;
  const after = virtual.getTotalSize() - (items.at(-1)?.end ?? 0);
  const width = visible.length + 2;
  // The same functions always: rows are drawn again only for what changes them.
  const actOn = useCallbackRef(act);
  const select = useCallbackRef((id: string, event: ChangeEvent) => table.getRow(id).getToggleSelectedHandler()(event));
  return (
    <>
      <div className="tools ends above">
        <span className="soft">{count(clusters.length, "cluster")}</span>
        <div className="rowactions">
          <IconButton
            tip={density === "compact" ? "Taller rows" : "Compact rows"}
            aria-label="Compact rows"
            aria-pressed={density === "compact"}
            onClick={() => setDensity(density === "compact" ? "comfortable" : "compact")}
          >
            <Icon name="rows" />
          </IconButton>
          <ColumnChoice columns={table.getAllLeafColumns().filter((each) => each.getCanHide())} />
        </div>
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable with the keyboard */}
      <section className="scroller" ref={scroller} aria-label="List of clusters" tabIndex={0}>
        <table
          className={`clusters ${density}`}
          aria-rowcount={rows.length + 1}
          style={narrow(widthOf(visible, [CHECK, BUTTONS]))}
        >
          <Widths columns={visible} before={CHECK} after={BUTTONS} />
          <thead>
            <tr>
              <th className="check" scope="col">
                <SelectAll table={table} />
              </th>
              <Heads columns={visible} classOf={classOf} />
            </tr>
          </thead>
          {/* Rows do not change places under the pointer: a new order waits until it has left. */}
          <tbody onPointerEnter={() => setOver(rows.map((row) => row.id))} onPointerLeave={() => setOver(null)}>
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
                  select={select}
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

/** Stands for the rows that are not drawn. */
function Space({ height, width }: { height: number; width: number }) {
  return (
    <tr className="space">
      <td colSpan={width} style={{ height }} />
    </tr>
  );
}

function SelectAll({ table }: { table: Table<Features, Cluster> }) {
  const all = table.getIsAllRowsSelected();
  return (
    <Tick
      label="Select all clusters shown"
      checked={all}
      some={table.getIsSomeRowsSelected() && !all}
      onChange={() => table.toggleAllRowsSelected(!all, { deselectAll: true })}
    />
  );
}

function ColumnChoice(props: ChoiceProps) {
  const [opened, setOpened] = useState(false);
  const button = (
    <IconButton
      tip="Columns"
      aria-label="Choose columns"
      aria-haspopup="dialog"
      aria-expanded={false}
      onClick={() => setOpened(true)}
    >
      <Icon name="columns" />
    </IconButton>
  );
  if (!opened) return button;
  return (
    <Suspense fallback={button}>
      <ColumnMenu {...props} />
    </Suspense>
  );
}
