import { useEffect, useRef } from "react";
import { typing } from "./keys";

/** `j` and `k` go to the next and the previous row, from wherever the focus is. */
export function useRowKeys(count: number, show: (index: number) => void = () => {}) {
  const shown = useRef(show);
  shown.current = show;
  const coming = useRef<number>(undefined); // a row that is not drawn yet gets the focus with the next frame; keys may come faster
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      const by = event.key === "j" ? 1 : event.key === "k" ? -1 : 0;
      if (by === 0 || count === 0 || typing(event)) return;
      event.preventDefault();
      const row = document.activeElement?.closest<HTMLElement>("tr[data-index]");
      const focused = row?.dataset.index === undefined ? (by > 0 ? -1 : count) : Number(row.dataset.index);
      const now = coming.current ?? focused;
      const next = Math.min(Math.max(now + by, 0), count - 1);
      coming.current = next;
      shown.current(next);
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
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, [count]);
}
