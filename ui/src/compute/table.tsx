import { useCallbackRef, useMediaQuery } from "@mantine/hooks";
import { useVirtualizer } from "@tanstack/react-virtual";
import { lazy, Suspense, useMemo, useRef, useState } from "react";
import type { Cluster } from "../api/client";
import { hasPrices } from "../api/queries";
import { Icon } from "../app/icons";
import { later } from "../app/later";
import { inOrder, sorted } from "../app/order";
import { IconButton, Tick } from "../app/plain";
import { useRowKeys } from "../app/rowkeys";
import { useKept } from "../lib/kept";
import { useNow } from "../lib/time";
import { columns as allColumns, type Known, type ListColumn } from "./columns";
import { type Act, ClusterRow, classOf } from "./row";

const ColumnMenu = lazy(later(() => import("./columnmenu")));

const MINUTE = 60_000;
const CARD = 190; // pixels, about: cards are measured
const HEIGHTS = { comfortable: 44, compact: 28 };
type Density = keyof typeof HEIGHTS;
export type Hidden = Record<string, boolean>; // by column; false: it is hidden
export type Selected = Record<string, boolean>;

interface Props {
  clusters: Cluster[];
  known: Known;
  sort: string | undefined; // a column's id, with a minus for descending
  onSort: (sort: string | undefined) => void;
  selected: Selected;
  onSelected: (selected: Selected) => void;
  busy: ReadonlySet<string>;
  act: Act;
}

const idOf = (cluster: Cluster) => cluster.cluster_id;

export function ClusterTable({ clusters, known, sort, onSort, selected, onSelected, busy, act }: Props) {
  const [hidden, setHidden] = useKept<Hidden>("columns", { access: true, tags: false, policy: false, pool: false });
  const [density, setDensity] = useKept<Density>("density", "comfortable");
  const cards = useMediaQuery("(max-width: 640px)", matchMedia("(max-width: 640px)").matches);
  const [over, setOver] = useState<string[] | null>(null);
  const now = useNow(MINUTE);
  const columns = useMemo(
    () => allColumns(known, now).filter((each) => each.id !== "spend" || hasPrices()),
    [known, now],
  );
  const visible = useMemo(() => columns.filter((each) => each.always || hidden[each.id] !== false), [columns, hidden]);
  const ordered = useMemo(() => sorted(clusters, columns, sort), [clusters, columns, sort]);
  const rows = useMemo(() => inOrder(ordered, idOf, over), [ordered, over]);
  const scroller = useRef<HTMLElement>(null);
  const virtual = useVirtualizer<HTMLElement, Element>({
    count: rows.length,
    getScrollElement: () => scroller.current,
    initialRect: { width: innerWidth, height: innerHeight }, // so that the first look has rows
    estimateSize: () => (cards ? CARD : HEIGHTS[density]),
    getItemKey: (index) => rows[index]?.cluster_id ?? index,
    overscan: 6,
  });
  useRowKeys(rows.length, (index) => virtual.scrollToIndex(index));
  const items = virtual.getVirtualItems();
  const before = items[0]?.start ?? 0;
  const after = virtual.getTotalSize() - (items.at(-1)?.end ?? 0);
  const width = visible.length + 2;
  // The same functions always: rows are drawn again only for what changes them.
  const actOn = useCallbackRef(act);
  const select = useCallbackRef((id: string) => onSelected({ ...selected, [id]: !selected[id] }));
  const turn = (id: string) => onSort(sort === id ? `-${id}` : sort === `-${id}` ? undefined : id);
  return (
    <>
      <div className="tools ends above">
        <span className="soft">
          {clusters.length} {clusters.length === 1 ? "cluster" : "clusters"}
        </span>
        <div className="rowactions">
          <IconButton
            tip={density === "compact" ? "Higher rows" : "Compact rows"}
            aria-label="Compact rows"
            aria-pressed={density === "compact"}
            onClick={() => setDensity(density === "compact" ? "comfortable" : "compact")}
          >
            <Icon name="rows" />
          </IconButton>
          <ColumnChoice columns={columns} hidden={hidden} setHidden={setHidden} />
        </div>
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable with the keyboard */}
      <section className="scroller" ref={scroller} aria-label="List of clusters" tabIndex={0}>
        <table className={`clusters ${density}`} aria-rowcount={rows.length + 1}>
          <Head
            columns={visible}
            sort={sort}
            turn={turn}
            clusters={clusters}
            selected={selected}
            onSelected={onSelected}
          />
          {/* Rows do not change places under the pointer: a new order waits until it has left. */}
          <tbody onPointerEnter={() => setOver(rows.map(idOf))} onPointerLeave={() => setOver(null)}>
            {before > 0 && <Space height={before} width={width} />}
            {items.map((item) => {
              const cluster = rows[item.index];
              return cluster === undefined ? null : (
                <ClusterRow
                  key={cluster.cluster_id}
                  cluster={cluster}
                  index={item.index}
                  columns={visible}
                  selected={selected[cluster.cluster_id] ?? false}
                  pinned={known.pinned.has(cluster.cluster_id)}
                  busy={busy.has(cluster.cluster_id)}
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

interface HeadProps {
  columns: ListColumn[];
  sort: string | undefined;
  turn: (id: string) => void;
  clusters: Cluster[];
  selected: Selected;
  onSelected: (selected: Selected) => void;
}

function Head({ columns, sort, turn, clusters, selected, onSelected }: HeadProps) {
  const chosen = Object.keys(selected).length === 0 ? 0 : clusters.filter((each) => selected[each.cluster_id]).length;
  const all = chosen === clusters.length;
  return (
    <thead>
      <tr>
        <th className="check" scope="col">
          <Tick
            label="Select all clusters shown"
            checked={all}
            some={chosen > 0 && !all}
            onChange={() => onSelected(all ? {} : Object.fromEntries(clusters.map((each) => [each.cluster_id, true])))}
          />
        </th>
        {columns.map((each) => {
          const way = sort === each.id ? "ascending" : sort === `-${each.id}` ? "descending" : undefined;
          return (
            <th key={each.id} scope="col" className={classOf(each)} aria-sort={way}>
              {each.unsorted ? (
                each.label
              ) : (
                <button type="button" onClick={() => turn(each.id)}>
                  {each.label}
                  {way && <Icon name={way === "ascending" ? "up" : "down"} size={12} />}
                </button>
              )}
            </th>
          );
        })}
        <th className="actions" scope="col">
          <span className="unseen">Actions</span>
        </th>
      </tr>
    </thead>
  );
}

export interface ChoiceProps {
  columns: ListColumn[];
  hidden: Hidden;
  setHidden: (hidden: Hidden) => void;
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
