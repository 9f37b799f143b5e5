import { useEffect, useRef } from "react";

/** For a row of tabs that may be wider than the window: the chosen one scrolls into sight. */
export function useInSight<T extends HTMLElement>(chosen: string | undefined) {
  const row = useRef<T>(null);
  useEffect(() => {
    const tab = chosen === undefined ? null : row.current?.querySelector("[aria-selected=true]");
    tab?.scrollIntoView({ block: "nearest", inline: "center" });
  }, [chosen]);
  return row;
}
