import {
  type AccessorFnColumnDef,
  type Cell,
  type Column,
  type ColumnVisibilityState,
  columnSizingFeature,
  columnVisibilityFeature,
  functionalUpdate,
  metaHelper,
  type OnChangeFn,
  type RowData,
  type RowSelectionState,
  rowSelectionFeature,
  rowSortingFeature,
  type SortingState,
  tableFeatures,
  useTable,
} from "@tanstack/react-table";
import { type ReactNode, useMemo } from "react";
import { sorted } from "./order";

// What our lists use of the library. Filters are in the address, and rows are put in order by `sorted`, which takes less time.
const features = tableFeatures({
  columnSizingFeature,
  columnVisibilityFeature,
  rowSelectionFeature,
  rowSortingFeature,
  columnMeta: metaHelper<{ figures?: true }>(),
});

export const FIGURES = { figures: true } as const; // of columns that are aligned as such

export type Features = typeof features;
export type Hidden = ColumnVisibilityState; // by column; false: it is hidden
export type Selected = RowSelectionState;
export type ListColumn<T extends RowData> = Column<Features, T>;

/** A column of a list. `accessorFn`: what it is sorted by, and shown as unless there is a `cell`. `size`: how narrow it can be, in
 * pixels; what is left of the window's width is shared in proportion. */
export type DataColumn<T extends RowData> = Omit<
  AccessorFnColumnDef<Features, T>,
  "id" | "header" | "size" | "accessorFn"
> & {
  id: string;
  header: string;
  size: number;
  accessorFn: (row: T) => string | number;
};

interface Listing<T extends RowData> {
  rows: T[];
  idOf: (row: T) => string;
  columns: DataColumn<T>[];
  sort: string | undefined; // a column's id, with a minus for descending
  onSort: (sort: string | undefined) => void;
  hidden?: Hidden;
  onHidden?: (hidden: Hidden) => void;
  selected?: Selected;
  onSelected?: OnChangeFn<Selected>;
}

const NONE = {};

/** The model of a list: its columns, its rows in their order, what is hidden and what is selected. */
export function useListing<T extends RowData>(listing: Listing<T>) {
  const { rows, idOf, columns, sort, onSort, hidden = NONE, onHidden, selected = NONE, onSelected } = listing;
  const sorting = useMemo<SortingState>(
    () => (sort === undefined ? [] : [{ id: sort.replace(/^-/, ""), desc: sort.startsWith("-") }]),
    [sort],
  );
  // New rows also for new columns: a row keeps the values that it was asked for.
  const data = useMemo(() => [...sorted(rows, columns, sort)], [rows, columns, sort]);
  return useTable({
    features,
    columns,
    data,
    getRowId: idOf,
    manualSorting: true,
    enableMultiSort: false,
    sortDescFirst: false,
    state: { sorting, columnVisibility: hidden, rowSelection: selected },
    onSortingChange: (update) => {
      const [next] = functionalUpdate(update, sorting);
      onSort(next && `${next.desc ? "-" : ""}${next.id}`);
    },
    onColumnVisibilityChange: (update) => onHidden?.(functionalUpdate(update, hidden)),
    onRowSelectionChange: (update) => onSelected?.(update),
  });
}

/** What a cell shows. */
export function contentOf<T extends RowData>(cell: Cell<Features, T>): ReactNode {
  const { cell: template } = cell.column.columnDef;
  return typeof template === "function" ? template(cell.getContext()) : template;
}
