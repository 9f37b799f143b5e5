import { useNavigate } from "@tanstack/react-router";
import { useEffect } from "react";
import { Value } from "../lib/value";

export const help = new Value(false);
export const palette = new Value(false);

/** Whether a key belongs to what is typed, to the browser, or to a dialog. */
export const typing = (event: KeyboardEvent) =>
  event.ctrlKey ||
  event.metaKey ||
  event.altKey ||
  help.get() ||
  palette.get() || // though they may still be on their way
  document.querySelector("[role=dialog]") !== null ||
  (event.target instanceof HTMLElement &&
    event.target.matches("input:not([type=checkbox]), textarea, select, [contenteditable]"));

/** The keys that work on every page. */
export function useKeys() {
  const navigate = useNavigate();
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") palette.set(true);
      else if (typing(event)) return;
      else if (event.key === "?") help.set(true);
      else if (event.key === "c") void navigate({ to: "/compute/create", search: {} });
      else if (event.key === "/") document.querySelector<HTMLInputElement>("[data-search]")?.focus();
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, [navigate]);
}
