import { lazy, memo, Suspense, useState } from "react";
import type { Cluster } from "../api/client";
import { Icon } from "../app/icons";
import { later } from "../app/later";
import { IconButton, Tick } from "../app/plain";
import { ACTIONS, type ActionName, fitting } from "./actions";
import type { ListColumn } from "./columns";
import { nameOf } from "./facts";

const RowMenu = lazy(later(() => import("./rowmenu")));

export type Act = (name: ActionName, cluster: Cluster) => void;

interface Props {
  cluster: Cluster;
  index: number;
  columns: ListColumn[]; // those that are shown
  selected: boolean;
  pinned: boolean;
  busy: boolean;
  select: (id: string) => void;
  act: Act;
  measure: ((row: HTMLElement | null) => void) | undefined; // where rows differ in height
}

/** A row of the list. It is drawn again only if one of its properties has changed: most of scrolling is drawing. */
export const ClusterRow = memo(function ClusterRow(props: Props) {
  const { cluster, index, columns, selected, pinned, busy, select, act, measure } = props;
  return (
    <tr data-index={index} aria-rowindex={index + 2} data-selected={selected || undefined} ref={measure}>
      <td className="check">
        <Tick label={`Select ${nameOf(cluster)}`} checked={selected} onChange={() => select(cluster.cluster_id)} />
      </td>
      {columns.map((column) => {
        const value = column.value(cluster);
        return (
          <td
            key={column.id}
            className={classOf(column)}
            title={typeof value === "string" && value !== "" ? value : undefined}
            data-label={column.label}
          >
            {column.cell ? column.cell(cluster) : value}
          </td>
        );
      })}
      <td className="actions">
        <RowActions cluster={cluster} pinned={pinned} busy={busy} act={act} />
      </td>
    </tr>
  );
});

export const classOf = (column: ListColumn) => (column.figures ? `${column.id} figures` : column.id);

interface ActionProps {
  cluster: Cluster;
  pinned: boolean;
  busy: boolean;
  act: Act;
}

function RowActions({ cluster, pinned, busy, act }: ActionProps) {
  const [opened, setOpened] = useState(false); // once it was, its menu stays
  const fits = fitting(cluster, pinned);
  const first = fits.find((name) => name === "start" || name === "stop");
  if (busy) return <span className="waits" role="img" aria-label="Waiting for the server" />;
  const more = (
    <IconButton
      aria-label={`Actions on ${nameOf(cluster)}`}
      aria-haspopup="menu"
      aria-expanded={false}
      onClick={() => setOpened(true)}
    >
      <Icon name="more" />
    </IconButton>
  );
  return (
    <div className="rowactions">
      {first && (
        <IconButton
          title={ACTIONS[first].label}
          aria-label={`${ACTIONS[first].label} ${nameOf(cluster)}`}
          onClick={() => act(first, cluster)}
        >
          <Icon name={ACTIONS[first].icon} size={14} filled />
        </IconButton>
      )}
      {opened ? (
        <Suspense fallback={more}>
          <RowMenu cluster={cluster} fits={fits} act={act} />
        </Suspense>
      ) : (
        more
      )}
    </div>
  );
}
