import "./notebook.css";
import { Button, Group, Text } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { words } from "../api/client";
import type { Result } from "../code/commands";
import { Highlighted } from "../code/highlight";
import { Note } from "../code/result/note";
import { ResultView } from "../code/result/result";
import { Icon } from "../kit/icons";
import { Reading } from "../kit/reading";
import { toast } from "../kit/toasts";
import { download } from "../lib/files";
import { lasting, useNow } from "../lib/time";
import { cellsQuery, exported } from "./calls";
import { type Cell, isNote, wordOf } from "./cells";

interface Props {
  id: number; // of the attempt
  /** Instead of cells, if there are none. */
  otherwise: ReactNode;
}

/** What a notebook shows, cell by cell, while it runs and afterwards. */
export default function NotebookOutput({ id, otherwise }: Props) {
  const asked = useQuery(cellsQuery(id));
  const saving = useMutation({
    mutationFn: () => exported(id),
    onSuccess: (view) => view && download(`${view.name}.html`, [view.content], "text/html"),
    onError: (error) => toast(words(error), { failed: true }),
  });
  if (asked.data === undefined) return <Reading query={asked} what="Reading the cells" rows={3} />;
  const { cells, over } = asked.data;
  if (cells.length === 0) return otherwise;
  const failed = cells.find((each) => each.state === "ERROR");
  return (
    <>
      <Group gap="xs">
        {failed && (
          <Button
            variant="default"
            onClick={() => document.getElementById(idOf(id, failed))?.scrollIntoView({ block: "start" })}
          >
            Go to the failed cell
          </Button>
        )}
        {over && (
          <Button
            variant="subtle"
            color="gray"
            leftSection={<Icon name="download" size={14} />}
            loading={saving.isPending}
            onClick={() => saving.mutate()}
          >
            Save as HTML
          </Button>
        )}
      </Group>
      <ol className="nbcells" aria-label="Cells of the notebook">
        {cells.map((cell) => (
          <li key={cell.number} id={idOf(id, cell)} aria-label={`Cell ${cell.number + 1}`}>
            <CellView cell={cell} />
          </li>
        ))}
      </ol>
    </>
  );
}

const idOf = (run: number, cell: Cell) => `run-${run}-cell-${cell.number}`;

function CellView({ cell }: { cell: Cell }) {
  const note = isNote(cell);
  const results = cell.results ?? [];
  return (
    <>
      {cell.title && <p className="nbtitle">{cell.title}</p>}
      {!note && (
        <>
          <Highlighted
            code={cell.source ?? ""}
            language={cell.language ?? ""}
            label={`Code of cell ${cell.number + 1}`}
          />
          <State cell={cell} />
        </>
      )}
      {results.map((each, at) => (
        <Shown key={String(at)} result={each} note={note} />
      ))}
      {cell.cut && (
        <Text size="sm" c="dimmed" role="note">
          {cell.cut}
        </Text>
      )}
    </>
  );
}

function Shown({ result, note }: { result: Result; note: boolean }) {
  if (note && result.isHtml) return <Note html={String(result.data ?? "")} />;
  return <ResultView result={result} open />;
}

function State({ cell }: { cell: Cell }) {
  const { word, look } = wordOf(cell);
  const { start_time: start, end_time: end } = cell;
  const widgets = Object.entries(cell.widgets ?? {});
  return (
    <p className="nbstate">
      <span className={`word ${look}`}>{word}</span>
      {start && end ? <span className="soft">{took(end - start)}</span> : null}
      {start && cell.state === "RUNNING" ? <Since start={start} /> : null}
      {widgets.map(([name, value]) => (
        <span key={name} className="soft">
          <span className="mono">{name}</span> = <span className="mono">{value}</span>
        </span>
      ))}
    </p>
  );
}

const took = (ms: number) => (ms < 1000 ? `${ms} ms` : lasting(ms));

function Since({ start }: { start: number }) {
  return <span className="soft">{lasting(useNow(1000) - start)}</span>;
}
