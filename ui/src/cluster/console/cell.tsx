import { ActionIcon, Group, NativeSelect, Tooltip } from "@mantine/core";
import { useRef } from "react";
import type { CatalogNames } from "../../code/catalog";
import type { Language } from "../../code/commands";
import { CodeEditor } from "../../code/editor";
import { Icon } from "../../kit/icons";
import { CellMenu, RunState, useCellKeys } from "./cellparts";
import { type Cell, waits } from "./cells";
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
  const press = useCellKeys({
    ...{ run: start, runAndNext: keys.runAndNext, edit: () => goTo(id, true), go: (by) => go(by, false), remove },
    add: (by) => goTo(notebook.add(id, by), false),
    move: (by) => notebook.move(id, by),
  });
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
        {run && <RunState run={run} />}
        <span className="rest" />
        <CellMenu
          number={number}
          add={(by) => goTo(notebook.add(id, by), true)}
          move={(by) => notebook.move(id, by)}
          remove={remove}
        />
      </Group>
      {run && <Output run={run} />}
    </li>
  );
}
