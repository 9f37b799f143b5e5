import { useNavigate } from "@tanstack/react-router";
import { useEffect } from "react";
import { Value } from "../lib/value";

export const help = new Value(false);
export const palette = new Value(false);
export const wanted = new Value(""); // what is typed into the palette, also while it is on its way

/** Takes what is typed before the palette's field has the focus. */
function ahead(event: KeyboardEvent) {
  if (event.ctrlKey || event.metaKey || event.altKey) return false;
  if (event.target instanceof Element && event.target.closest("[role=dialog]") !== null) return false;
  if (event.key === "Escape") palette.set(false);
  else if (event.key === "Backspace") wanted.set(wanted.get().slice(0, -1));
  else if (event.key.length === 1) wanted.set(wanted.get() + event.key);
  else return false;
  return true;
}

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
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
        if (!palette.get()) wanted.set("");
        palette.set(true);
      } else if (palette.get()) {
        if (!ahead(event)) return;
      } else if (typing(event)) return;
      else if (event.key === "?") help.set(true);
      else if (event.key === "c") void navigate({ to: "/compute/create", search: {} });
      else if (event.key === "C") void navigate({ to: "/compute/create", search: { like: "last" } });
      else if (event.key === "/") document.querySelector<HTMLInputElement>("[data-search]")?.focus();
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, [navigate]);
}
