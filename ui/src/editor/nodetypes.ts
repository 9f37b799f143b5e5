import type { NodeType } from "../api/offers";
import type { components } from "../api/schema";

type Machine = components["schemas"]["MachineView"];

/** A node type as a row of a table. `free`: how many such nodes fit now; undefined if nobody knows. */
export interface TypeRow {
  id: string;
  family: string;
  cores: number;
  gib: number;
  gpus: number;
  model: string; // of its GPUs
  price: number | undefined;
  free: number | undefined;
}

export const COLUMNS = ["id", "cores", "gib", "gpus", "price", "free"] as const;
export type Column = (typeof COLUMNS)[number];
export type Free = (type: NodeType) => number | undefined;

/** The model, which a description ends with: "8 cores, 61 GiB, 1 x V100". */
const modelOf = (description: string) => /\d+ x (.+)$/.exec(description)?.[1] ?? "";

/** `only`: those that a policy names; `keep`: those that are chosen, also if they are deprecated. */
export function typeRows(
  types: NodeType[],
  prices: Map<string, number> | undefined,
  { keep = [], only, free = () => undefined }: { keep?: unknown[]; only?: Set<string>; free?: Free } = {},
): TypeRow[] {
  return types
    .filter((each) => only === undefined || only.has(each.node_type_id))
    .filter((each) => !each.is_deprecated || keep.includes(each.node_type_id))
    .map((each) => ({
      id: each.node_type_id,
      family: each.category,
      cores: each.num_cores,
      gib: each.memory_mb / 1024,
      gpus: each.num_gpus ?? 0,
      model: modelOf(each.description),
      price: prices?.get(each.node_type_id) || undefined,
      free: free(each),
    }));
}

/** How many nodes of a type fit beside those that there are, as far as the provider tells its room. It does not tell that for GPUs. */
export function freeOn(machine: Machine | undefined): Free {
  const rooms = new Map(machine?.providers.map((each) => [each.name, each.room]));
  return (type) => {
    const room = rooms.get(type.provider || machine?.provider || "");
    if (room == null || (type.num_gpus ?? 0) > 0) return undefined;
    const memory = Math.min(type.memory_mb, room.memory_mb_total); // a node can use no more, and counts for no more
    return Math.max(0, Math.floor(Math.min(room.cores_left / type.num_cores, room.memory_mb_left / memory)));
  };
}

/** Whether a column says something of any row: without GPUs, prices or a known room, its place is left to the names. */
export const hasColumn = (rows: TypeRow[], column: Column) =>
  rows.some((row) => row[column] !== undefined && (column !== "gpus" || row.gpus > 0));

const figure = (value: number) => value.toLocaleString(undefined, { maximumFractionDigits: 1 });
export const gibText = (gib: number) => `${figure(gib)} GiB`;
export const gpuText = (row: TypeRow) =>
  row.gpus === 0 ? "" : `${row.gpus} GPU${row.gpus > 1 ? "s" : ""}${row.model === "" ? "" : ` (${row.model})`}`;

/** A row in one line. */
export const rowText = (row: TypeRow, price: string) =>
  [row.id, `${row.cores} cores`, gibText(row.gib), gpuText(row), price].filter(Boolean).join(" · ");

/** The rows in which every word of the text occurs: "gpu", "8 cores", "i3". */
export function matching(rows: TypeRow[], text: string): TypeRow[] {
  const wanted = text
    .toLowerCase()
    .split(/[\s·]+/)
    .filter(Boolean);
  return rows.filter((row) => {
    const line = `${rowText(row, "")} ${row.family}`.toLowerCase();
    return wanted.every((word) => line.includes(word));
  });
}

export interface Order {
  by: Column;
  down: boolean;
}

/** Sorted; rows without a value come last either way, and the order of the server decides between equal ones. */
export function inOrder(rows: TypeRow[], order: Order | undefined): TypeRow[] {
  if (order === undefined) return rows;
  const { by, down } = order;
  return [...rows].sort((one, other) => {
    const [a, b] = [one[by], other[by]];
    if (a === undefined || b === undefined) return Number(a === undefined) - Number(b === undefined);
    const found = typeof a === "string" ? a.localeCompare(String(b), undefined, { numeric: true }) : a - Number(b);
    return down ? -found : found;
  });
}

/** The order after a press on a column's head: up, down, as the server has it. Names begin with A, figures with the most of it, and
 * prices with the lowest. */
export function nextOrder(now: Order | undefined, by: Column): Order | undefined {
  const first = by !== "id" && by !== "price";
  if (now?.by !== by) return { by, down: first };
  return now.down === first ? { by, down: !first } : undefined;
}
