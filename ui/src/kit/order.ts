/** What rows are sorted by. */
interface Sortable<T> {
  id: string;
  accessorFn: (row: T) => string | number;
}

// Made once: with a language's rules it takes long to make, and less than comparing by them anew each time.
const BY_LANGUAGE = new Intl.Collator(undefined, { numeric: true });

/** The rows by a column: its id, with a minus for descending. Each value is asked for once. */
export function sorted<T>(rows: T[], columns: Sortable<T>[], sort: string | undefined): T[] {
  const by = columns.find((each) => each.id === sort?.replace(/^-/, ""));
  if (by === undefined) return rows;
  const way = sort?.startsWith("-") ? -1 : 1;
  const keyed = rows.map((row) => ({ row, key: by.accessorFn(row) }));
  keyed.sort((one, other) => way * compare(one.key, other.key));
  return keyed.map((each) => each.row);
}

function compare(one: string | number, other: string | number): number {
  if (one === other) return 0;
  if (typeof one === "number" && typeof other === "number") return one - other;
  return BY_LANGUAGE.compare(String(one), String(other));
}

/** The rows in the order that they had under the pointer; new ones come last. */
export function inOrder<T extends { id: string }>(rows: T[], before: string[] | null): T[] {
  if (before === null) return rows;
  const place = new Map(before.map((id, at) => [id, at]));
  const at = (row: T) => place.get(row.id) ?? before.length;
  return [...rows].sort((one, other) => at(one) - at(other));
}
