import { ApiError, LostConnection, words } from "../api/client";
import { PlainButton } from "./plain";

function titleOf(error: unknown, what: string | undefined): string {
  if (error instanceof LostConnection) return "No connection to the server";
  if (!(error instanceof ApiError)) return "Something went wrong on this page";
  if (error.status === 401) return "Your session has ended";
  return what ?? "Could not open this page";
}

interface Props {
  error: unknown;
  retry: () => void;
  what?: string; // that was refused: "Could not read the clusters"
  missing?: string; // what it means that something is not there
}

/** Says what failed, why, and what to do. */
export function Trouble({ error, retry, what, missing }: Props) {
  const absent = error instanceof ApiError && error.status === 404;
  return (
    <div className="trouble" role="alert">
      <h2>{absent && missing ? missing : titleOf(error, what)}</h2>
      <p>{words(error)}</p>
      {error instanceof ApiError && error.requestId && (
        <p className="soft">
          <code>{error.code}</code> Request <code>{error.requestId}</code>. See the server's log for details.
        </p>
      )}
      <div className="tools">
        <PlainButton className="main" onClick={retry}>
          Try again
        </PlainButton>
        {!(error instanceof ApiError || error instanceof LostConnection) && (
          <PlainButton onClick={() => location.reload()}>Reload the page</PlainButton>
        )}
      </div>
    </div>
  );
}
