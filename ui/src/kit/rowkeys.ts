import { useEffect, useRef } from "react";
import { typing } from "./keys";

interface RowKeys {
  show?: (index: number) => void; // before a row that may not be drawn gets the focus
  keys?: Record<string, (index: number) => void>; // what else a key does on the row that has the focus
}

/** `j` and `k` go to the next and the previous row, from wherever the focus is. */
export function useRowKeys(count: number, given: RowKeys = {}) {
  const latest = useRef(given);
  latest.current = given;
  const coming = useRef<number>(undefined); // a row that is not drawn yet gets the focus with the next frame; keys may come faster
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      const by = event.key === "j" ? 1 : event.key === "k" ? -1 : 0;
      if (count === 0 || typing(event)) return;
      const row = document.activeElement?.closest<HTMLElement>("tr[data-index]");
      const { show, keys = {} } = latest.current;
      const act = Object.hasOwn(keys, event.key) ? keys[event.key] : undefined;
      if (by === 0 && (act === undefined || row == null)) return;
      event.preventDefault();
      event.stopImmediatePropagation(); // elsewhere the same key may do something else
      if (by === 0) return act?.(coming.current ?? Number(row?.dataset.index));
      const focused = row == null ? (by > 0 ? -1 : count) : Number(row.dataset.index);
      const now = coming.current ?? focused;
      const next = Math.min(Math.max(now + by, 0), count - 1);
      coming.current = next;
      show?.(next);
      const focus = () => {
        const found = document.querySelector(`tr[data-index="${next}"]`);
        if (found !== null) coming.current = undefined;
        (found?.querySelector<HTMLElement>("a") ?? found?.querySelector("input"))?.focus();
        return found !== null;
      };
      if (focus()) return; // at once: Enter may be the very next key
      requestAnimationFrame(() => {
        if (coming.current === next && !focus()) coming.current = undefined;
      });
    };
    addEventListener("keydown", press, true); // before the keys of every page
    return () => removeEventListener("keydown", press, true);
  }, [count]);
}
