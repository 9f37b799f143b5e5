import { ActionIcon, Menu } from "@mantine/core";
import { type KeyboardEvent, useRef } from "react";
import { Icon } from "../../kit/icons";
import { lasting, useNow } from "../../lib/time";
import { failed, type Run, waits } from "./cells";

const LOOKS: Record<Run["status"], string> = {
  Starting: "wait",
  Queued: "wait",
  Running: "wait",
  Cancelling: "wait",
  Finished: "good",
  Cancelled: "off",
  Error: "bad",
};
const TWICE_MS = 600; // between two presses of d

/** What the keys do on a cell. What changes the cells is missing where they can only be read. */
export interface CellActions {
  run: () => void;
  runAndNext: () => void;
  edit: () => void;
  go: (by: number) => void;
  add?: (by: 0 | 1) => void;
  move?: (by: number) => void;
  remove?: () => void;
}

/** Keys as in notebooks, while the cell itself has the focus. */
export function useCellKeys(actions: CellActions) {
  const lastD = useRef(0);
  return (event: KeyboardEvent<HTMLElement>) => {
    if (event.target !== event.currentTarget) return;
    const modified = event.ctrlKey || event.metaKey;
    if (event.key === "Enter") {
      if (event.shiftKey) actions.runAndNext();
      else if (modified) actions.run();
      else actions.edit();
    } else if (event.key === "Tab" && !event.shiftKey) {
      const first = event.currentTarget.querySelector<HTMLElement>(":is(.under, .output) :is(button, select):enabled");
      if (first === null) return;
      first.focus(); // in the code, Tab indents
    } else if (modified) return;
    else if (event.altKey && event.key === "ArrowUp") actions.move?.(-1);
    else if (event.altKey && event.key === "ArrowDown") actions.move?.(1);
    else if (event.altKey) return;
    else if (event.key === "ArrowUp" || event.key === "k") actions.go(-1);
    else if (event.key === "ArrowDown" || event.key === "j") actions.go(1);
    else if (event.key === "a") actions.add?.(0);
    else if (event.key === "b") actions.add?.(1);
    else if (event.key === "d") {
      if (event.timeStamp - lastD.current < TWICE_MS) actions.remove?.();
      lastD.current = event.timeStamp;
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };
}

export function RunState({ run }: { run: Run }) {
  const wrong = failed(run);
  return (
    <>
      <span className={`word ${wrong ? "bad" : LOOKS[run.status]}`} role="status">
        {wrong && run.status === "Finished" ? "Error" : run.status}
      </span>
      {waits(run) ? <Running since={run.begun} /> : <Took ms={run.took ?? 0} />}
    </>
  );
}

function Running({ since }: { since: number }) {
  const now = useNow(1000);
  return <span className="soft nowrap">{lasting(now - since)}</span>;
}

const Took = ({ ms }: { ms: number }) => <span className="soft nowrap">{ms < 1000 ? `${ms} ms` : lasting(ms)}</span>;

interface MenuProps {
  number: number;
  add: (by: 0 | 1) => void;
  move: (by: number) => void;
  remove: () => void;
  /** Of cells that have titles. */
  title?: { word: string; edit: () => void };
}

export function CellMenu({ number, add, move, remove, title }: MenuProps) {
  return (
    <Menu position="bottom-end" withinPortal>
      <Menu.Target>
        <ActionIcon variant="subtle" color="gray" aria-label={`More actions on cell ${number}`}>
          <Icon name="more" />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        {title && <Menu.Item onClick={title.edit}>{title.word}</Menu.Item>}
        <Menu.Item rightSection={<kbd>a</kbd>} onClick={() => add(0)}>
          Add a cell above
        </Menu.Item>
        <Menu.Item rightSection={<kbd>b</kbd>} onClick={() => add(1)}>
          Add a cell below
        </Menu.Item>
        <Menu.Item rightSection={<kbd>Alt ↑</kbd>} onClick={() => move(-1)}>
          Move up
        </Menu.Item>
        <Menu.Item rightSection={<kbd>Alt ↓</kbd>} onClick={() => move(1)}>
          Move down
        </Menu.Item>
        <Menu.Item rightSection={<kbd>d d</kbd>} onClick={remove}>
          Delete the cell
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
