import { ActionIcon, Button, Group, NativeSelect, Text, TextInput, Tooltip } from "@mantine/core";
import { Marked } from "marked";
import { useMemo, useRef, useState } from "react";
import { CellMenu, RunState, useCellKeys } from "../cluster/console/cellparts";
import { waits } from "../cluster/console/cells";
import { definedNames } from "../cluster/console/defined";
import { Output } from "../cluster/console/output";
import type { CatalogNames } from "../code/catalog";
import type { Language } from "../code/commands";
import { CodeEditor } from "../code/editor";
import { Note } from "../code/result/note";
import { Icon } from "../kit/icons";
import type { NotebookCell, OpenNotebook } from "./book";
import { whyNot } from "./commands";
import type { Kind } from "./source";

const LABELS: Record<Kind, string> = {
  python: "Python",
  sql: "SQL",
  markdown: "Markdown",
  shell: "Shell",
  scala: "Scala",
  r: "R",
};
const OFFERED: Kind[] = ["python", "sql", "markdown", "shell"];
const HINTS: Partial<Record<Kind, string>> = {
  python: "spark.range(10).display()",
  sql: "SELECT current_user(), current_date()",
  markdown: "# A heading",
  shell: "ls /Volumes",
};
const MARKDOWN = new Marked({ gfm: true });
const NO_NAMES: string[] = [];
const MENU_MS = 50; // within this time a menu that closes takes the focus back

interface Props {
  cell: NotebookCell;
  number: number;
  book: OpenNotebook;
  names: CatalogNames;
  readOnly: boolean;
  runs: boolean; // whether a cluster takes commands
  /** Goes to another cell, by how many places; `edit`: into its code. `add`: makes one at the end. */
  go: (by: number, edit: boolean, add?: boolean) => void;
  goTo: (id: number, edit: boolean) => void;
  remove: () => void;
}

export function CellView(props: Props) {
  const { cell, number, book, readOnly, runs, go, goTo, remove } = props;
  const { id, kind, code, run } = cell;
  const [written, setWritten] = useState(false); // of a note: its text is shown, from when it gets the focus
  const [titled, setTitled] = useState(false); // its title is edited
  const place = useRef<HTMLLIElement>(null);
  const note = kind === "markdown" && !written && code.trim() !== "";
  const start = () => (kind === "markdown" ? setWritten(false) : runs && book.run(id));
  const edit = () => {
    if (kind === "markdown") setWritten(true);
    goTo(id, true);
  };
  const keys = {
    run: () => {
      start();
      if (kind === "markdown") place.current?.focus();
    },
    runAndNext: () => {
      start();
      go(1, true, !readOnly);
    },
    leave: () => {
      setWritten(false);
      place.current?.focus();
    },
    recall: () => false,
  };
  const changes = {
    add: (by: 0 | 1) => goTo(book.add(id, by), false),
    move: (by: number) => book.move(id, by),
    remove,
  };
  const press = useCellKeys({
    ...{ run: start, runAndNext: keys.runAndNext, edit, go: (by) => go(by, false) },
    ...(readOnly ? {} : changes),
  });
  const why = whyNot(cell);
  return (
    <li ref={place} id={`cell-${id}`} className="cell" tabIndex={-1} aria-label={`Cell ${number}`} onKeyDown={press}>
      {titled ? (
        <TextInput
          size="xs"
          className="nbtitle"
          aria-label={`Title of cell ${number}`}
          placeholder="Title"
          data-autofocus
          autoFocus
          value={cell.title}
          onChange={(event) => book.entitle(id, event.currentTarget.value)}
          onBlur={() => setTitled(false)}
          onKeyDown={(event) => {
            if (event.key !== "Enter" && event.key !== "Escape") return;
            event.stopPropagation();
            place.current?.focus();
          }}
        />
      ) : (
        cell.title && <p className="nbtitle">{cell.title}</p>
      )}
      {note ? (
        // biome-ignore lint/a11y/noStaticElementInteractions: Enter on the cell, and the button below, do the same
        <div onDoubleClick={readOnly ? undefined : edit}>
          <Markdown text={code} />
        </div>
      ) : (
        // biome-ignore lint/a11y/noStaticElementInteractions: only notes that the code inside has the focus
        <div onFocus={() => setWritten(true)}>
          <Code {...props} keys={keys} />
        </div>
      )}
      <Group gap={6} className="under">
        {kind === "markdown" ? (
          !readOnly && (
            <Button
              variant="default"
              aria-label={`${note ? "Edit" : "Show"} the note of cell ${number}`}
              disabled={!note && code.trim() === ""}
              onClick={note ? edit : keys.leave}
            >
              {note ? "Edit" : "Done"}
            </Button>
          )
        ) : (
          <RunButton cell={cell} book={book} disabled={!runs || why !== undefined} start={start} />
        )}
        {readOnly ? (
          <Text size="sm" c="dimmed">
            {LABELS[kind]}
          </Text>
        ) : (
          <NativeSelect
            size="xs"
            aria-label={`Language of cell ${number}`}
            data={[...OFFERED, ...(OFFERED.includes(kind) ? [] : [kind])].map((value) => ({
              value,
              label: LABELS[value],
            }))}
            value={kind}
            onChange={(event) => {
              book.turn(id, event.currentTarget.value as Kind);
              setWritten(true);
            }}
          />
        )}
        {run && <RunState run={run} />}
        <span className="rest" />
        {!readOnly && (
          <CellMenu
            number={number}
            add={(by) => goTo(book.add(id, by), true)}
            move={changes.move}
            remove={remove}
            title={{
              word: cell.title ? "Edit the title" : "Add a title",
              edit: () => setTimeout(() => setTitled(true), MENU_MS),
            }}
          />
        )}
      </Group>
      {why && (
        <Text size="sm" c="dimmed" role="note">
          {why}
        </Text>
      )}
      {run && (
        <div className="output">
          <Output run={run} />
        </div>
      )}
    </li>
  );
}

interface RunProps {
  cell: NotebookCell;
  book: OpenNotebook;
  disabled: boolean;
  start: () => void;
}

function RunButton({ cell: { id, code, run }, book, disabled, start }: RunProps) {
  const busy = waits(run);
  return (
    <Tooltip label={busy ? "Cancel" : "Run (Ctrl+Enter)"}>
      <ActionIcon
        variant="default"
        aria-label={busy ? "Cancel" : "Run"}
        disabled={busy ? run?.status === "Cancelling" : disabled || code.trim() === ""}
        onClick={() => (busy ? book.stop(id) : start())}
      >
        <Icon name={busy ? "stop" : "play"} size={14} filled />
      </ActionIcon>
    </Tooltip>
  );
}

interface CodeProps extends Props {
  keys: Parameters<typeof CodeEditor>[0]["keys"];
}

function Code({ cell: { id, kind, code }, number, book, names, readOnly, keys }: CodeProps) {
  const defined = () => {
    if (kind === "markdown" || kind === "shell") return NO_NAMES;
    const others = book.cells.get().filter((each) => each.id !== id);
    return definedNames(
      others.flatMap((each) =>
        each.kind === "markdown" || each.kind === "shell" ? [] : [{ language: each.kind, code: each.code }],
      ),
      kind,
    );
  };
  return (
    <CodeEditor
      code={code}
      language={kind === "markdown" || kind === "shell" ? "text" : (kind as Language)}
      label={`Code ${number}`}
      hint={readOnly ? "" : (HINTS[kind] ?? "")}
      readOnly={readOnly}
      names={names}
      defined={defined}
      keys={keys}
      onChange={(text) => book.type(id, text)}
    />
  );
}

/** A note. Its HTML is shown as far as it is text. */
function Markdown({ text }: { text: string }) {
  const html = useMemo(() => MARKDOWN.parse(text, { async: false }), [text]);
  return <Note html={html} />;
}
