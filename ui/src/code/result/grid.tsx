import { Button } from "@mantine/core";
import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, type PointerEvent, useId, useMemo, useRef, useState } from "react";
import { flushSync } from "react-dom";
import { useCopied } from "../../kit/copy";
import { Icon } from "../../kit/icons";
import { type Cursor, moved } from "./cursor";
import { type Column, type Row, type Sort, shown } from "./rows";

const LINE = 28; // pixels of a row
const MOST_COLUMNS = 100; // at first
const CHARACTER = 7.6; // pixels
const STEP = 24; // pixels, by keyboard
const LOOKED_AT = 50; // rows
const WAYS = { true: "descending", false: "ascending" } as const;
const [NARROWEST, WIDEST] = [64, 320]; // pixels of a column at first

/** As wide as the name and the first values need, within bounds. */
function widthOf(column: Column, at: number, rows: Row[]): number {
  const longest = Math.max(
    column.name.length + column.type.length * 0.9 + 3,
    ...rows.slice(0, LOOKED_AT).map((row) => shown(row[at]).length),
  );
  return Math.round(Math.min(WIDEST, Math.max(NARROWEST, longest * CHARACTER + 24)));
}

// A table whose cells are reached with the arrow keys is a grid. Biome knows tables only as what cannot be acted on.
const gridOf = (descendant: string | undefined) =>
  ({ role: "grid", "aria-readonly": true, "aria-activedescendant": descendant, tabIndex: 0 }) as const;
const cellOf = (reached: boolean, reach: () => void) =>
  ({ role: "gridcell", "aria-selected": reached, onClick: reach }) as const;

interface GridProps {
  columns: Column[];
  rows: Row[];
  sort: Sort | undefined;
  onSort: (column: number) => void;
}

/** The rows that are in sight. The arrow keys go from cell to cell, and Ctrl+C copies one. */
export function Grid({ columns, rows, sort, onSort }: GridProps) {
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
  const [cursor, setCursor] = useState<Cursor>();
  const [, copy] = useCopied();
  const id = useId();
  const idOf = ({ row, column }: Cursor) => `${id} ${row} ${column}`.replaceAll(" ", "-");
  const press = (event: KeyboardEvent<HTMLTableElement>) => {
    if (event.target !== event.currentTarget || event.altKey || event.shiftKey) return;
    const far = event.ctrlKey || event.metaKey;
    if (far && event.key === "c" && cursor !== undefined && String(getSelection()) === "") {
      copy(shown(rows[cursor.row]?.[cursor.column]));
      return;
    }
    const page = Math.max(1, Math.floor((scroller.current?.clientHeight ?? 0) / LINE) - 2);
    const to = moved(cursor, event.key, far, { rows: rows.length, columns: drawn.length, page });
    if (to === undefined) return;
    event.preventDefault();
    event.stopPropagation(); // elsewhere in a notebook, arrows go from cell to cell
    flushSync(() => setCursor(to));
    virtual.scrollToIndex(to.row);
    scroller.current?.querySelectorAll("th")[to.column]?.scrollIntoView({ block: "nearest", inline: "nearest" });
  };
  const visible = virtual.getVirtualItems();
  const before = visible[0]?.start ?? 0;
  const after = virtual.getTotalSize() - (visible.at(-1)?.end ?? 0);
  const drawn = columns.slice(0, most);
  return (
    <>
      <section className="grid" ref={scroller}>
        <table
          {...gridOf(cursor && idOf(cursor))}
          aria-label="The result"
          onKeyDown={press}
          aria-rowcount={rows.length + 1}
          style={{ width: drawn.reduce((sum, _, at) => sum + width(at), 0) }}
        >
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
                  <Value
                    key={String(at)}
                    id={idOf({ row: index, column: at })}
                    column={column}
                    value={rows[index]?.[at]}
                    reached={cursor?.row === index && cursor.column === at}
                    reach={() => setCursor({ row: index, column: at })}
                  />
                ))}
              </tr>
            ))}
            {after > 0 && <Space height={after} span={drawn.length} />}
          </tbody>
        </table>
      </section>
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

interface ValueProps {
  id: string;
  column: Column;
  value: unknown;
  reached: boolean;
  reach: () => void;
}

function Value({ id, column, value, reached, reach }: ValueProps) {
  const text = shown(value);
  const none = value === null || value === undefined;
  return (
    <td
      id={id}
      {...cellOf(reached, reach)}
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
