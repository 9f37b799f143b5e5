import { useEffect, useState } from "react";
import { session } from "../../api/session";

/** Whether the workspace lets results leave the page as files (`enableResultsDownloading`). A session that does not tell, as of an
 * older server, lets them. */
export function allowsDownloads(found: object): boolean {
  const told = { ...found } as { results_download?: unknown; enableResultsDownloading?: unknown };
  return String(told.results_download ?? told.enableResultsDownloading ?? true) !== "false";
}

/** The same for this browser's session; no until that is known. */
export function useDownloads(): boolean {
  const [allowed, setAllowed] = useState(false);
  useEffect(() => {
    let shown = true;
    session.get().then(
      (found) => shown && setAllowed(allowsDownloads(found)),
      () => {}, // the server is away
    );
    return () => {
      shown = false;
    };
  }, []);
  return allowed;
}
