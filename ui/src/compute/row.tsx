import type { Row } from "@tanstack/react-table";
import { type ChangeEvent, lazy, memo, Suspense, useState } from "react";
import type { Cluster } from "../api/client";
import { ACTIONS, type Act, fitting } from "../clusters/actions";
import { failed, isOwned, nameOf } from "../clusters/facts";
import { classOf } from "../kit/datatable";
import { Icon } from "../kit/icons";
import { later } from "../kit/later";
import { contentOf, type Features, type ListColumn } from "../kit/listing";
import { Go, IconButton, Tick } from "../kit/plain";

const RowMenu = lazy(later(() => import("./rowmenu")));

interface Props {
  row: Row<Features, Cluster>;
  index: number;
  columns: ListColumn<Cluster>[]; // those that are shown
  selected: boolean;
  pinned: boolean;
  busy: boolean;
  select: (id: string, event: ChangeEvent) => void;
  act: Act;
  measure: ((row: HTMLElement | null) => void) | undefined; // where rows differ in height
}

const DRAWN = ["index", "columns", "selected", "pinned", "busy", "measure"] as const;

/** Whether a row looks as it did. The table makes all rows anew whenever one cluster has changed. */
const alike = (was: Props, is: Props) =>
  was.row.original === is.row.original && DRAWN.every((name) => was[name] === is[name]);

/** A row of the list. It is drawn again only if it would look different: most of scrolling is drawing. */
export const ClusterRow = memo(function ClusterRow(props: Props) {
  const { row, index, selected, pinned, busy, select, act, measure } = props;
  const cluster = row.original;
  return (
    <tr
      data-index={index}
      data-failed={failed(cluster) || undefined}
      aria-rowindex={index + 2}
      data-selected={selected || undefined}
      ref={measure}
    >
      <td className="check">
        <Tick label={`Select ${nameOf(cluster)}`} checked={selected} onChange={(event) => select(row.id, event)} />
      </td>
      {row.getVisibleCells().map((cell) => {
        const value = cell.getValue();
        return (
          <td
            key={cell.column.id}
            className={classOf(cell.column)}
            title={typeof value === "string" && value !== "" ? value : undefined}
            data-label={String(cell.column.columnDef.header)}
          >
            {contentOf(cell)}
          </td>
        );
      })}
      <td className="actions">
        <RowActions cluster={cluster} pinned={pinned} busy={busy} act={act} />
      </td>
    </tr>
  );
}, alike);

export const editOf = (cluster: Cluster) => `/compute/clusters/${cluster.cluster_id}/edit`;

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
  if (busy && opened) setOpened(false); // its menu would open by itself when the row is back
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
      {!isOwned(cluster) && (
        <Go className="iconbutton" title="Edit" aria-label={`Edit ${nameOf(cluster)}`} to={editOf(cluster)}>
          <Icon name="pencil" size={14} />
        </Go>
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
