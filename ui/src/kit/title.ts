import { useEffect } from "react";

/** The title of the browser's tab. */
export function useTitle(title: string) {
  useEffect(() => {
    document.title = `${title} - Brickyard`;
  }, [title]);
}
