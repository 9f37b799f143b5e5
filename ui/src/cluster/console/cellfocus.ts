import { useEffect, useRef, useState } from "react";
import type { Value } from "../../lib/value";
import type { Runnable } from "./cells";

/** Cells in an order that can be changed: of the console, or of a notebook. */
export interface Book {
  cells: Pick<Value<Runnable[]>, "get">;
  /** A new cell beside another one; returns its id. */
  add(beside: number, by: 0 | 1): number;
  remove(id: number): void;
}

/** Goes from cell to cell: `place` is the list of them. `edit`: into the code, not to the cell itself. */
export function useCellFocus(cells: Runnable[], book: Book) {
  const place = useRef<HTMLOListElement>(null);
  const [wanted, setWanted] = useState<{ id: number; edit: boolean }>();
  useEffect(() => {
    const cell = wanted && place.current?.querySelector<HTMLElement>(`#cell-${wanted.id}`);
    (wanted?.edit ? (cell?.querySelector<HTMLElement>(".cm-content") ?? cell) : cell)?.focus();
  }, [wanted]);
  const goTo = (id: number, edit: boolean) => setWanted({ id, edit });
  return {
    place,
    goTo,
    /** By how many cells; `add`: makes one at the end. */
    go: (from: number, by: number, edit: boolean, add = false) => {
      const at = cells.findIndex((each) => each.id === from);
      const next = cells[at + by];
      if (next !== undefined) goTo(next.id, edit);
      else if (add) goTo(book.add(from, 1), edit);
    },
    remove: (gone: number) => {
      const at = cells.findIndex((each) => each.id === gone);
      const next = cells[at + 1] ?? cells[at - 1];
      book.remove(gone);
      goTo((next ?? book.cells.get()[0])?.id ?? gone, next === undefined);
    },
  };
}
