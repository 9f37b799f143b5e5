/** What a column holds, as far as its order and its look depend on it. */
export type Kind = "number" | "time" | "text";

export type Row = unknown[];

export interface Column {
  name: string;
  type: string; // as Spark calls it
  kind: Kind;
}

export interface Sort {
  column: number;
  descending: boolean;
}

const NUMBER = /^(tinyint|smallint|int|integer|bigint|long|short|byte|double|float|real|decimal|numeric)\b/i;
const TIME = /^(date|timestamp)/i;
const NAMES = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });
const DIGITS = /^-?\d+$/;

/** The type's name in a schema, where it is JSON: a text, or an object of a type that has parts. */
export function typeOf(text: string): string {
  try {
    const read: unknown = JSON.parse(text);
    return typeof read === "string" ? read : ((read as { type?: string }).type ?? text);
  } catch {
    return text;
  }
}

export const kindOf = (type: string): Kind => (NUMBER.test(type) ? "number" : TIME.test(type) ? "time" : "text");

export const columnsOf = (schema: { name: string; type: string }[]): Column[] =>
  schema.map(({ name, type: given }) => {
    const type = typeOf(given);
    return { name, type, kind: kindOf(type) };
  });

/** A value as it is shown and copied. */
export function shown(value: unknown): string {
  if (value === null || value === undefined) return "null";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

/** A value as a number; undefined if it is none. Times are epoch milliseconds. */
export function measured(value: unknown, kind: Kind): number | undefined {
  if (value === null || value === undefined || value === "") return undefined;
  const found = kind === "time" && typeof value === "string" ? Date.parse(isoOf(value)) : Number(value);
  return Number.isNaN(found) ? undefined : found;
}

/** Spark writes "2026-01-31 10:00:00" for a time without a zone. Browsers agree only on the form with a T, and read a date alone as UTC:
 * west of it, that is the day before. */
const isoOf = (text: string) =>
  text.replace(/^(\d{4}-\d\d-\d\d)$/, "$1 00:00").replace(/^(\d{4}-\d\d-\d\d) (\d)/, "$1T$2");

function compared(one: unknown, other: unknown, kind: Kind): number {
  if (kind === "text") return NAMES.compare(shown(one), shown(other));
  if (DIGITS.test(String(one)) && DIGITS.test(String(other))) {
    const [left, right] = [BigInt(String(one)), BigInt(String(other))];
    return left < right ? -1 : left > right ? 1 : 0;
  }
  const [left, right] = [measured(one, kind), measured(other, kind)];
  if (left === undefined || right === undefined) {
    // "NaN" and what else is no number: after all numbers
    if (left === right) return NAMES.compare(shown(one), shown(other));
    return left === undefined ? 1 : -1;
  }
  return left - right;
}

/** The rows in another order. null comes last, whatever the direction; equal rows keep their order. */
export function sortedRows(rows: Row[], columns: Column[], sort: Sort | undefined): Row[] {
  const kind = sort === undefined ? undefined : columns[sort.column]?.kind;
  if (sort === undefined || kind === undefined) return rows;
  const none = (row: Row) => row[sort.column] === null || row[sort.column] === undefined;
  const by = (a: Row, b: Row) => compared(a[sort.column], b[sort.column], kind);
  const known = rows.filter((row) => !none(row)).sort(sort.descending ? (a, b) => by(b, a) : by);
  return [...known, ...rows.filter(none)];
}

/** What a click on a column's head does: up, down, and then as the rows came. */
export function nextSort(sort: Sort | undefined, column: number): Sort | undefined {
  if (sort?.column !== column) return { column, descending: false };
  return sort.descending ? undefined : { column, descending: true };
}

function lines(names: string[], rows: Row[], separator: string, quoted: RegExp): string {
  const cell = (value: unknown) => {
    const text = value === null || value === undefined ? "" : shown(value);
    return quoted.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [names, ...rows].map((row) => `${row.map(cell).join(separator)}\r\n`).join("");
}

export const csv = (names: string[], rows: Row[]) => lines(names, rows, ",", /[",\r\n]/);

/** For spreadsheets, which paste columns that tabs separate. */
export const tabbed = (names: string[], rows: Row[]) => lines(names, rows, "\t", /["\t\r\n]/);
