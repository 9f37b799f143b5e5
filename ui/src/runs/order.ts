export interface Ordered {
  task_key: string;
  depends_on?: { task_key: string; outcome?: string | null }[] | null;
}

/** What a task depends on, in words. */
export const needsOf = (task: Ordered) =>
  (task.depends_on ?? []).map(({ task_key, outcome }) => (outcome ? `${task_key} (${outcome})` : task_key)).join(", ");

/** Tasks in columns: each one is to the right of all that it depends on. */
export function columnsOf<T extends Ordered>(tasks: T[]): T[][] {
  const known = new Map(tasks.map((task) => [task.task_key, task]));
  const depths = new Map<string, number>();
  const depth = (task: T, above: Set<string>): number => {
    const found = depths.get(task.task_key);
    if (found !== undefined) return found;
    const needs = (task.depends_on ?? []).flatMap(({ task_key }) => known.get(task_key) ?? []);
    const inside = new Set([...above, task.task_key]);
    const own =
      Math.max(-1, ...needs.filter((each) => !inside.has(each.task_key)).map((each) => depth(each, inside))) + 1;
    depths.set(task.task_key, own);
    return own;
  };
  const columns: T[][] = [];
  for (const task of tasks) {
    const at = depth(task, new Set());
    for (let column = columns.length; column <= at; column++) columns.push([]);
    columns[at]?.push(task);
  }
  return columns;
}

export const WIDTH = 180;
export const HEIGHT = 48;
const BETWEEN = 40; // columns, in pixels
const BELOW = 12;

export interface Drawing<T> {
  width: number;
  height: number;
  boxes: { task: T; left: number; top: number }[];
  edges: { from: string; to: string; path: string }[];
}

/** Where each task stands, in pixels, and the lines from what it depends on. */
export function drawn<T extends Ordered>(tasks: T[]): Drawing<T> {
  const columns = columnsOf(tasks);
  const tall = (column: T[]) => column.length * (HEIGHT + BELOW) - BELOW;
  const height = Math.max(0, ...columns.map(tall));
  const boxes = columns.flatMap((column, at) =>
    column.map((task, row) => ({
      task,
      left: at * (WIDTH + BETWEEN),
      top: (height - tall(column)) / 2 + row * (HEIGHT + BELOW),
    })),
  );
  const places = new Map(boxes.map((each) => [each.task.task_key, each]));
  const edges = boxes.flatMap(({ task, left, top }) =>
    (task.depends_on ?? []).flatMap(({ task_key: from }) => {
      const source = places.get(from);
      if (source === undefined) return [];
      const [x, y] = [source.left + WIDTH, source.top + HEIGHT / 2];
      const to = top + HEIGHT / 2;
      const bend = BETWEEN / 2;
      return { from, to: task.task_key, path: `M${x} ${y}C${x + bend} ${y} ${left - bend} ${to} ${left} ${to}` };
    }),
  );
  return { width: Math.max(0, columns.length * (WIDTH + BETWEEN) - BETWEEN), height, boxes, edges };
}
