import { Alert, Button, Group } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { ago, exactly, useNow } from "../lib/time";
import { lastEditQuery } from "./calls";
import { goTo } from "./fields";
import { type Change, type Conflict, pathName, put, type Spec, shown } from "./spec";

/** What somebody else has changed while this page was open. */
export interface Theirs {
  found: Change[];
  conflicts: Conflict[];
}

/** Who it was, what has changed, and what both have changed: mine is kept until I decide otherwise. */
export function TheirChanges({
  id,
  theirs,
  change,
  settle,
  close,
}: {
  id: string;
  theirs: Theirs;
  change: (make: (spec: Spec) => Spec) => void;
  settle: (conflict: Conflict) => void;
  close: () => void;
}) {
  const { data: last } = useQuery(lastEditQuery(id));
  const now = useNow(10_000);
  const who = last?.user ?? "Someone else";
  return (
    <Alert
      variant="default"
      className="notice"
      role="alert"
      withCloseButton
      closeButtonLabel="Close this message"
      onClose={close}
      title={
        <>
          {who} has changed this cluster {last && <span title={exactly(last.at)}>{ago(last.at, now)}</span>}
        </>
      }
    >
      {theirs.found.length > 0 && (
        <>
          <p>Their changes are saved and merged into your draft:</p>
          <ul>
            {theirs.found.map((each) => (
              <li key={each.path.join("\0")}>
                <button type="button" className="textbutton" onClick={() => goTo(fieldOf(each.path))}>
                  <code>{pathName(each.path)}</code>
                </button>
                : {shown(each.before) || "not set"} → {shown(each.after) || "not set"}
              </li>
            ))}
          </ul>
        </>
      )}
      {theirs.conflicts.map((each) => (
        <Group key={each.path.join("\0")} gap={8} className="conflict">
          <span>
            You both changed{" "}
            <button type="button" className="textbutton" onClick={() => goTo(fieldOf(each.path))}>
              <code>{pathName(each.path)}</code>
            </button>
            . Your value, <b>{shown(each.mine) || "not set"}</b>, is kept; theirs is{" "}
            <b>{shown(each.theirs) || "not set"}</b>.
          </span>
          <Button
            variant="default"
            onClick={() => {
              change((spec) => put(spec, each.path, each.theirs));
              settle(each);
            }}
          >
            Use theirs
          </Button>
          <Button variant="default" onClick={() => settle(each)}>
            Keep mine
          </Button>
        </Group>
      ))}
    </Alert>
  );
}

/** The field of the form in which a change is. */
const fieldOf = (path: string[]) => (path[0] === "size" ? "num_workers" : path.join("."));
