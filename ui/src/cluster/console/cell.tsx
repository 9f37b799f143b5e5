import { ActionIcon, Group, Menu, NativeSelect, Tooltip } from "@mantine/core";
import { type KeyboardEvent, useRef } from "react";
import type { CatalogNames } from "../../code/catalog";
import type { Language } from "../../code/commands";
import { CodeEditor } from "../../code/editor";
import { Icon } from "../../kit/icons";
import { lasting, useNow } from "../../lib/time";
import { type Cell, failed, type Run, waits } from "./cells";
import { definedNames } from "./defined";
import { recalled } from "./history";
import type { Notebook } from "./notebook";
import { Output } from "./output";

const LABELS: Record<Language, string> = { python: "Python", sql: "SQL", scala: "Scala", r: "R" };
const HINTS: Record<Language, string> = {
  python: "spark.range(10).toPandas()",
  sql: "SELECT current_user(), current_date()",
  scala: "spark.range(10).count()",
  r: "1 + 1",
};
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

interface Props {
  cell: Cell;
  number: number;
  notebook: Notebook;
  languages: Language[];
  names: CatalogNames;
  runs: boolean; // whether the cluster takes commands
  /** Goes to another cell, by how many places; `edit`: into its code. `add`: makes one at the end. */
  go: (by: number, edit: boolean, add?: boolean) => void;
  goTo: (id: number, edit: boolean) => void;
  remove: () => void;
}

export function CellView({ cell, number, notebook, languages, names, runs, go, goTo, remove }: Props) {
  const { id, language, code, run } = cell;
  const busy = waits(run);
  const place = useRef<HTMLLIElement>(null);
  const shown = useRef<{ at: number; code: string } | null>(null); // the command of the history that the cell shows
  const lastD = useRef(0);
  const start = () => runs && notebook.run(id);
  const keys = {
    run: start,
    runAndNext: () => {
      start();
      go(1, true, true);
    },
    leave: () => place.current?.focus(),
    recall: (older: boolean) => {
      if (code !== "" && shown.current?.code !== code) return false;
      const history = notebook.history.get();
      const to = recalled(history, code === "" ? history.length : (shown.current?.at ?? history.length), older);
      if (to === undefined) return false;
      const ran = history[to];
      shown.current = ran === undefined ? null : { at: to, code: ran.code };
      notebook.change(id, ran === undefined ? { code: "" } : { code: ran.code, language: ran.language });
      return true;
    },
  };
  /** Keys as in notebooks, while the cell itself has the focus. */
  const press = (event: KeyboardEvent<HTMLLIElement>) => {
    if (event.target !== event.currentTarget) return;
    const modified = event.ctrlKey || event.metaKey;
    if (event.key === "Enter") {
      if (event.shiftKey) keys.runAndNext();
      else if (modified) start();
      else goTo(id, true);
    } else if (event.key === "Tab" && !event.shiftKey) {
      place.current?.querySelector<HTMLElement>(":is(.under, .output) :is(button, select):enabled")?.focus(); // in the code, Tab indents
    } else if (modified) return;
    else if (event.altKey && event.key === "ArrowUp") notebook.move(id, -1);
    else if (event.altKey && event.key === "ArrowDown") notebook.move(id, 1);
    else if (event.altKey) return;
    else if (event.key === "ArrowUp" || event.key === "k") go(-1, false);
    else if (event.key === "ArrowDown" || event.key === "j") go(1, false);
    else if (event.key === "a") goTo(notebook.add(id, 0), false);
    else if (event.key === "b") goTo(notebook.add(id, 1), false);
    else if (event.key === "d") {
      if (event.timeStamp - lastD.current < TWICE_MS) remove();
      lastD.current = event.timeStamp;
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <li ref={place} id={`cell-${id}`} className="cell" tabIndex={-1} aria-label={`Cell ${number}`} onKeyDown={press}>
      <CodeEditor
        code={code}
        language={language}
        label={number === 1 ? "Code" : `Code ${number}`}
        hint={HINTS[language]}
        names={names}
        defined={() =>
          definedNames(
            notebook.cells.get().filter((each) => each.id !== id),
            language,
          )
        }
        keys={keys}
        onChange={(text) => notebook.change(id, { code: text })}
      />
      <Group gap={6} className="under">
        <Tooltip label={busy ? "Cancel" : "Run (Ctrl+Enter)"}>
          <ActionIcon
            variant="default"
            aria-label={busy ? "Cancel" : "Run"}
            disabled={busy ? run?.status === "Cancelling" : !runs || code.trim() === ""}
            onClick={() => (busy ? notebook.stop(id) : start())}
          >
            <Icon name={busy ? "stop" : "play"} size={14} filled />
          </ActionIcon>
        </Tooltip>
        <NativeSelect
          size="xs"
          aria-label={number === 1 ? "Language" : `Language of cell ${number}`}
          data={languages.map((value) => ({ value, label: LABELS[value] ?? value }))}
          value={language}
          onChange={(event) => notebook.change(id, { language: event.currentTarget.value as Language })}
        />
        {run && <State run={run} />}
        <span className="rest" />
        <CellMenu number={number} notebook={notebook} id={id} goTo={goTo} remove={remove} />
      </Group>
      {run && <Output run={run} />}
    </li>
  );
}

function State({ run }: { run: Run }) {
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
  id: number;
  notebook: Notebook;
  goTo: Props["goTo"];
  remove: () => void;
}

function CellMenu({ number, id, notebook, goTo, remove }: MenuProps) {
  return (
    <Menu position="bottom-end" withinPortal>
      <Menu.Target>
        <ActionIcon variant="subtle" color="gray" aria-label={`More actions on cell ${number}`}>
          <Icon name="more" />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Item rightSection={<kbd>a</kbd>} onClick={() => goTo(notebook.add(id, 0), true)}>
          Add a cell above
        </Menu.Item>
        <Menu.Item rightSection={<kbd>b</kbd>} onClick={() => goTo(notebook.add(id, 1), true)}>
          Add a cell below
        </Menu.Item>
        <Menu.Item rightSection={<kbd>Alt ↑</kbd>} onClick={() => notebook.move(id, -1)}>
          Move up
        </Menu.Item>
        <Menu.Item rightSection={<kbd>Alt ↓</kbd>} onClick={() => notebook.move(id, 1)}>
          Move down
        </Menu.Item>
        <Menu.Item rightSection={<kbd>d d</kbd>} onClick={remove}>
          Delete the cell
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
