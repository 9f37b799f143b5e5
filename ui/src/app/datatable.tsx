import { type ReactNode, useState } from "react";
import { Icon } from "./icons";
import { inOrder, sorted } from "./order";
import { useRowKeys } from "./rowkeys";

export interface DataColumn<T> {
  id: string;
  label: string;
  value: (row: T) => string | number; // what it is sorted by, and shown as unless there is a cell
  cell?: (row: T) => ReactNode;
  figures?: boolean;
}

interface Props<T> {
  label: string;
  rows: T[];
  idOf: (row: T) => string;
  columns: DataColumn<T>[];
  sort: string | undefined; // a column's id, with a minus for descending
  onSort: (sort: string | undefined) => void;
  actions: (row: T) => ReactNode;
}

/** A list of some hundreds of rows, sorted by its heads; on a phone each row is a card. */
export function DataTable<T>({ label, rows, idOf, columns, sort, onSort, actions }: Props<T>) {
  const [over, setOver] = useState<string[] | null>(null);
  const by = columns.find((each) => each.id === sort?.replace(/^-/, ""));
  const down = sort?.startsWith("-") ?? false;
  const shown = inOrder(sorted(rows, columns, sort), idOf, over);
  useRowKeys(shown.length);
  const turn = (id: string) => onSort(by?.id !== id ? id : down ? undefined : `-${id}`);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable with the keyboard
    <section className="scroller" aria-label={label} tabIndex={0}>
      <table className="clusters comfortable listing">
        <thead>
          <tr>
            {columns.map((each) => (
              <th
                key={each.id}
                scope="col"
                className={each.figures ? "figures" : undefined}
                aria-sort={by?.id === each.id ? (down ? "descending" : "ascending") : undefined}
              >
                <button type="button" onClick={() => turn(each.id)}>
                  {each.label}
                  {by?.id === each.id && <Icon name={down ? "down" : "up"} size={12} />}
                </button>
              </th>
            ))}
            <th scope="col" className="actions">
              <span className="unseen">Actions</span>
            </th>
          </tr>
        </thead>
        {/* Rows do not change places under the pointer: a new order waits until it has left. */}
        <tbody onPointerEnter={() => setOver(shown.map(idOf))} onPointerLeave={() => setOver(null)}>
          {shown.map((row, index) => (
            <tr key={idOf(row)} data-index={index}>
              {columns.map((each) => (
                <td key={each.id} className={each.figures ? "figures" : undefined} data-label={each.label}>
                  {each.cell ? each.cell(row) : each.value(row)}
                </td>
              ))}
              <td className="actions">{actions(row)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
