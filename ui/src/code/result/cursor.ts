/** The cell of a table that the arrow keys have reached. */
export interface Cursor {
  row: number;
  column: number;
}

interface Extent {
  rows: number;
  columns: number;
  page: number; // rows in sight
}

/** Where a key leads from a cell; undefined: it is no key of the table. From nowhere, it leads to the first cell. */
export function moved(from: Cursor | undefined, key: string, far: boolean, extent: Extent): Cursor | undefined {
  const { rows, columns, page } = extent;
  if (rows === 0 || columns === 0) return undefined;
  const { row, column } = from ?? { row: 0, column: 0 };
  const steps: Record<string, [number, number]> = {
    ArrowUp: [far ? 0 : row - 1, column],
    ArrowDown: [far ? rows - 1 : row + 1, column],
    ArrowLeft: [row, far ? 0 : column - 1],
    ArrowRight: [row, far ? columns - 1 : column + 1],
    PageUp: [row - page, column],
    PageDown: [row + page, column],
    Home: [far ? 0 : row, 0],
    End: [far ? rows - 1 : row, columns - 1],
  };
  const step = steps[key];
  if (step === undefined) return undefined;
  if (from === undefined) return { row: 0, column: 0 };
  return { row: within(step[0], rows), column: within(step[1], columns) };
}

const within = (at: number, count: number) => Math.min(Math.max(at, 0), count - 1);
