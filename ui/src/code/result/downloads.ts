import { useEffect, useState } from "react";
import { session } from "../../api/session";

/** Whether the workspace lets results leave the page as files (its `enableResultsDownloading`); no until that is known. */
export function useDownloads(): boolean {
  const [allowed, setAllowed] = useState(false);
  useEffect(() => {
    let shown = true;
    session.get().then(
      (found) => shown && setAllowed(found.results_download !== false),
      () => {}, // the server is away
    );
    return () => {
      shown = false;
    };
  }, []);
  return allowed;
}
