import { useBlocker } from "@tanstack/react-router";
import { useEffect } from "react";
import { confirm } from "./confirm";

/** Asks before the page is left with changes that are not saved. */
export function useLeaveGuard(unsaved: boolean) {
  useBlocker({
    shouldBlockFn: async () =>
      unsaved &&
      !(await confirm({
        title: "Leave without saving?",
        consequence: "Your changes on this page will be lost.",
        action: "Leave",
      })),
    enableBeforeUnload: unsaved,
  });
}

/** Ctrl-Enter presses the page's main button. */
export function useMainKey() {
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (!(event.ctrlKey || event.metaKey) || event.key !== "Enter") return;
      event.preventDefault();
      document.querySelector<HTMLButtonElement>("[data-main-action]")?.click();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
}
