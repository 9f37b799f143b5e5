import type { components } from "../api/schema";
import type { Result } from "../code/commands";

export type Told = components["schemas"]["RunCells"];
export type Cell = Omit<components["schemas"]["NotebookCell"], "results"> & { results?: Result[] };

/** The cells of a notebook as far as they are known. `version`: of the newest change. */
export interface Cells {
  cells: Cell[];
  version: number;
  over: boolean;
}

export const NONE: Cells = { cells: [], version: 0, over: false };
const UNFINISHED: Record<string, string> = { RUNNING: "CANCELLED", WAITING: "SKIPPED" };

/** What is known with what the server has told. Once the notebook is over, none of its cells runs. */
export function merged(known: Cells, told: Told): Cells {
  const cells = new Map(known.cells.map((each) => [each.number, each]));
  for (const each of told.cells as Cell[]) cells.set(each.number, each);
  const shown = [...cells.values()].sort((one, other) => one.number - other.number);
  return {
    cells: told.over
      ? shown.map((each) => ({ ...each, state: UNFINISHED[each.state ?? "WAITING"] ?? each.state }))
      : shown,
    version: Math.max(known.version, ...told.cells.map((each) => each.version)),
    over: told.over && !told.has_more,
  };
}

const WORDS: Record<string, { word: string; look: "good" | "wait" | "off" | "bad" }> = {
  WAITING: { word: "Waiting", look: "off" },
  RUNNING: { word: "Running", look: "wait" },
  FINISHED: { word: "Finished", look: "good" },
  ERROR: { word: "Error", look: "bad" },
  CANCELLED: { word: "Cancelled", look: "off" },
  SKIPPED: { word: "Skipped", look: "off" },
};

export const wordOf = (cell: Cell) => WORDS[cell.state ?? "WAITING"] ?? { word: cell.state ?? "", look: "off" };

/** Whether a cell is a note that has been shown. */
export const isNote = (cell: Cell) =>
  cell.language === "markdown" && cell.results?.some((each) => each.isHtml) === true;
