import type { RowData } from "@tanstack/react-table";
import { type CSSProperties, type ReactNode, useState } from "react";
import { Icon } from "./icons";
import { contentOf, type DataColumn, type ListColumn, useListing } from "./listing";
import { inOrder } from "./order";
import { useRowKeys } from "./rowkeys";

interface Props<T extends RowData> {
  label: string;
  rows: T[];
  idOf: (row: T) => string;
  columns: DataColumn<T>[];
  sort: string | undefined; // a column's id, with a minus for descending
  onSort: (sort: string | undefined) => void;
  actions: (row: T) => ReactNode;
}

/** A list of some hundreds of rows, sorted by its heads; on a phone each row is a card. */
export function DataTable<T extends RowData>({ label, actions, ...listing }: Props<T>) {
  const [over, setOver] = useState<string[] | null>(null);
  const table = useListing(listing);
  const rows = inOrder(table.getRowModel().rows, over);
  const columns = table.getVisibleLeafColumns();
  useRowKeys(rows.length);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable with the keyboard
    <section className="scroller" aria-label={label} tabIndex={0}>
      <table className="clusters comfortable listing" style={narrow(widthOf(columns, [ACTIONS]))}>
        <Widths columns={columns} after={ACTIONS} />
        <thead>
          <tr>
            <Heads columns={columns} classOf={classOf} />
          </tr>
        </thead>
        {/* Rows do not change places under the pointer: a new order waits until it has left. */}
        <tbody onPointerEnter={() => setOver(rows.map((row) => row.id))} onPointerLeave={() => setOver(null)}>
          {rows.map((row, index) => (
            <tr key={row.id} data-index={index}>
              {row.getVisibleCells().map((cell) => (
                <td
                  key={cell.column.id}
                  className={classOf(cell.column)}
                  data-label={String(cell.column.columnDef.header)}
                >
                  {contentOf(cell)}
                </td>
              ))}
              <td className="actions">{actions(row.original)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

const ACTIONS = 44;

const LOOKS = new Set(["name", "access", "creator"]); // columns with a look of their own

/** The class of a column's cells. */
export const classOf = <T extends RowData>({ id, columnDef }: ListColumn<T>) =>
  LOOKS.has(id) ? id : columnDef.meta?.figures ? "figures" : undefined;

/** How narrow a table can be: beyond that it scrolls sideways. `more`: its columns without data. */
export const widthOf = <T extends RowData>(columns: ListColumn<T>[], more: number[]) =>
  [...columns.map((each) => each.getSize()), ...more].reduce((sum, each) => sum + each, 0);

/** For lists.css: rows that are cards can be narrower. */
export const narrow = (pixels: number) => ({ "--narrow": `${pixels}px` }) as CSSProperties;

interface WidthsProps<T extends RowData> {
  columns: ListColumn<T>[];
  before?: number; // of a column without data
  after: number; // likewise
}

/** The widths of a table's columns, of which the browser makes more if there is more. */
export function Widths<T extends RowData>({ columns, before, after }: WidthsProps<T>) {
  return (
    <colgroup>
      {before !== undefined && <col style={{ width: before }} />}
      {columns.map((each) => (
        <col key={each.id} style={{ width: each.getSize() }} />
      ))}
      <col style={{ width: after }} />
    </colgroup>
  );
}

const WAYS = { asc: "ascending", desc: "descending" } as const;

interface HeadsProps<T extends RowData> {
  columns: ListColumn<T>[];
  classOf: (column: ListColumn<T>) => string | undefined;
}

/** The heads of a list, which sort it, and that of its actions. */
export function Heads<T extends RowData>({ columns, classOf }: HeadsProps<T>) {
  return (
    <>
      {columns.map((column) => {
        const label = String(column.columnDef.header);
        const sorted = column.getIsSorted();
        return (
          <th
            key={column.id}
            scope="col"
            className={classOf(column)}
            aria-sort={sorted === false ? undefined : WAYS[sorted]}
          >
            {column.getCanSort() ? (
              <button type="button" onClick={() => column.toggleSorting()}>
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
    </>
  );
}
