import { useEffect } from "react";
import { workspaceName } from "../api/session";
import { Value } from "../lib/value";

/** What the page is about now; screen readers are told when it changes. */
export const title = new Value("");

/** The title of the browser's tab. */
export function useTitle(text: string) {
  useEffect(() => {
    document.title = `${text} - ${workspaceName()}`;
    title.set(text);
  }, [text]);
}
