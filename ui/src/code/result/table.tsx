import "./result.css";
import { Button, Group, Text } from "@mantine/core";
import { useVirtualizer } from "@tanstack/react-virtual";
import { lazy, type PointerEvent, Suspense, useMemo, useRef, useState } from "react";
import { useCopied } from "../../kit/copy";
import { Icon } from "../../kit/icons";
import { Scroller } from "../../kit/scroller";
import { download } from "../../lib/files";
import { count } from "../../lib/sizes";
import { firstChoice } from "./chartdata";
import { useDownloads } from "./downloads";
import { type Column, columnsOf, csv, nextSort, type Row, type Sort, shown, sortedRows, tabbed } from "./rows";

const LINE = 28; // pixels of a row
const MOST_COLUMNS = 100; // at first
const [NARROWEST, WIDEST] = [64, 320]; // pixels of a column at first
const CHARACTER = 7.6; // pixels
const STEP = 24; // pixels, by keyboard
const LOOKED_AT = 50; // rows
const WAYS = { true: "descending", false: "ascending" } as const;
const ResultChart = lazy(() => import("./chart"));

/** As wide as the name and the first values need, within bounds. */
function widthOf(column: Column, at: number, rows: Row[]): number {
  const longest = Math.max(
    column.name.length + column.type.length * 0.9 + 3,
    ...rows.slice(0, LOOKED_AT).map((row) => shown(row[at]).length),
  );
  return Math.round(Math.min(WIDEST, Math.max(NARROWEST, longest * CHARACTER + 24)));
}

interface Props {
  schema: { name: string; type: string }[];
  rows: Row[];
  truncated: boolean;
}

/** A table as the result of a command: sorted by its heads, copied, saved, or drawn as a chart. */
export function ResultTable({ schema, rows, truncated }: Props) {
  const columns = useMemo(() => columnsOf(schema), [schema]);
  const [sort, setSort] = useState<Sort>();
  const [drawn, setDrawn] = useState(false);
  const downloads = useDownloads();
  const [copied, copy] = useCopied();
  const ordered = useMemo(() => sortedRows(rows, columns, sort), [rows, columns, sort]);
  const chartable = rows.length > 0 && firstChoice(columns) !== undefined;
  const names = schema.map((each) => each.name);
  return (
    <>
      {drawn ? (
        <Suspense fallback={<Text c="dimmed">Loading the chart</Text>}>
          <ResultChart columns={columns} rows={ordered} />
        </Suspense>
      ) : (
        <Grid columns={columns} rows={ordered} sort={sort} onSort={(at) => setSort(nextSort(sort, at))} />
      )}
      <Group gap="xs">
        <Text size="sm" c="dimmed">
          {count(rows.length, "row")}
          {truncated ? "; the result has more rows" : ""}
        </Text>
        {chartable && (
          <Button variant="subtle" color="gray" aria-pressed={drawn} onClick={() => setDrawn(!drawn)}>
            {drawn ? "Table" : "Chart"}
          </Button>
        )}
        <Button
          variant="subtle"
          color="gray"
          leftSection={<Icon name={copied ? "check" : "copy"} size={14} />}
          onClick={() => copy(tabbed(names, ordered))}
        >
          {copied ? "Copied" : "Copy"}
        </Button>
        {downloads && (
          <Button
            variant="subtle"
            color="gray"
            leftSection={<Icon name="download" size={14} />}
            onClick={() => download("result.csv", [csv(names, ordered)], "text/csv")}
          >
            CSV
          </Button>
        )}
      </Group>
    </>
  );
}

interface GridProps {
  columns: Column[];
  rows: Row[];
  sort: Sort | undefined;
  onSort: (column: number) => void;
}

function Grid({ columns, rows, sort, onSort }: GridProps) {
  const [most, setMost] = useState(MOST_COLUMNS);
  const scroller = useRef<HTMLElement>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another order of the same rows changes no width
  const usual = useMemo(() => columns.map((each, at) => widthOf(each, at, rows)), [columns]);
  const [wished, setWished] = useState<Record<number, number>>({});
  const width = (at: number) => wished[at] ?? usual[at] ?? NARROWEST;
  const widen = (at: number, to: number) => setWished((now) => ({ ...now, [at]: Math.max(40, Math.round(to)) }));
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => LINE,
    overscan: 12,
  });
  const visible = virtual.getVirtualItems();
  const before = visible[0]?.start ?? 0;
  const after = virtual.getTotalSize() - (visible.at(-1)?.end ?? 0);
  const drawn = columns.slice(0, most);
  return (
    <>
      <Scroller className="grid" label="The result" ref={scroller}>
        <table aria-rowcount={rows.length + 1} style={{ width: drawn.reduce((sum, _, at) => sum + width(at), 0) }}>
          <colgroup>
            {drawn.map((each, at) => (
              <col key={`${each.name} ${String(at)}`} style={{ width: width(at) }} />
            ))}
          </colgroup>
          <thead>
            <tr aria-rowindex={1}>
              {drawn.map((each, at) => (
                <Head
                  key={`${each.name} ${String(at)}`}
                  column={each}
                  sort={sort?.column === at ? sort : undefined}
                  width={width(at)}
                  onSort={() => onSort(at)}
                  onWidth={(to) => widen(at, to)}
                />
              ))}
            </tr>
          </thead>
          <tbody>
            {before > 0 && <Space height={before} span={drawn.length} />}
            {visible.map(({ index }) => (
              <tr key={index} aria-rowindex={index + 2}>
                {drawn.map((column, at) => (
                  <Value key={String(at)} column={column} value={rows[index]?.[at]} />
                ))}
              </tr>
            ))}
            {after > 0 && <Space height={after} span={drawn.length} />}
          </tbody>
        </table>
      </Scroller>
      {columns.length > most && (
        <Button variant="subtle" color="gray" onClick={() => setMost(most + MOST_COLUMNS)}>
          Show more columns ({columns.length - most})
        </Button>
      )}
    </>
  );
}

/** In place of rows out of sight. */
const Space = ({ height, span }: { height: number; span: number }) => (
  <tr>
    <td colSpan={span} className="space" style={{ height }} />
  </tr>
);

function Value({ column, value }: { column: Column; value: unknown }) {
  const text = shown(value);
  const none = value === null || value === undefined;
  return (
    <td
      className={`${column.kind === "number" ? "figures" : ""} ${none ? "soft" : ""}`}
      title={text.length > 12 ? text.slice(0, 2000) : undefined}
    >
      {text}
    </td>
  );
}

interface HeadProps {
  column: Column;
  sort: Sort | undefined;
  width: number;
  onSort: () => void;
  onWidth: (to: number) => void;
}

function Head({ column, sort, width, onSort, onWidth }: HeadProps) {
  const drag = (event: PointerEvent<HTMLSpanElement>) => {
    const handle = event.currentTarget;
    const from = event.clientX;
    handle.setPointerCapture(event.pointerId);
    handle.onpointermove = (moved) => onWidth(width + moved.clientX - from);
    handle.onpointerup = () => {
      handle.onpointermove = null;
    };
  };
  return (
    <th
      scope="col"
      className={column.kind === "number" ? "figures" : ""}
      aria-sort={sort === undefined ? undefined : WAYS[`${sort.descending}`]}
    >
      <button
        type="button"
        title="Sort. Shift and an arrow key change the width."
        aria-keyshortcuts="Shift+ArrowRight Shift+ArrowLeft"
        onClick={onSort}
        onKeyDown={(event) => {
          const by = { ArrowRight: STEP, ArrowLeft: -STEP }[event.key];
          if (by === undefined || !event.shiftKey) return;
          event.preventDefault();
          onWidth(width + by);
        }}
      >
        {column.name} <span className="soft">{column.type}</span>
        {sort && <Icon name={sort.descending ? "down" : "up"} size={12} />}
      </button>
      <span className="widen" aria-hidden="true" onPointerDown={drag} />
    </th>
  );
}
