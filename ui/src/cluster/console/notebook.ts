import { session } from "../../api/session";
import { Value } from "../../lib/value";
import * as list from "./cells";
import { type Cell, waits } from "./cells";
import { type Ran, remembered, storedHistory, storeHistory } from "./history";
import { type KeptSession, Runs } from "./runs";

const SAVE_MS = 400;

interface Stored extends KeptSession {
  user: string;
  cells: Cell[];
}

/** The console of one cluster in this browser's tab: its cells, its session, and what runs. It outlives the component that shows it,
 * and is kept over a reload. */
export class Notebook {
  readonly cells: Value<Cell[]>;
  readonly history = new Value<Ran[]>([]);
  readonly #runs: Runs<Cell>;
  #user = "";
  #timer = 0;

  constructor(
    readonly id: string,
    attached: () => void,
  ) {
    const stored = this.#read();
    this.#user = stored.user ?? "";
    this.cells = new Value(atLeastOne(list.read(JSON.stringify(stored.cells ?? []))));
    this.#runs = new Runs(id, this.cells, attached, stored);
    this.cells.subscribe(() => this.#saveSoon());
    this.context.subscribe(() => this.#saveSoon());
    addEventListener("pagehide", () => this.#save());
    void this.#begin(stored.user);
  }

  get context(): Value<string> {
    return this.#runs.context;
  }

  /** Goes on with what this user ran before. Another user sees nothing of it. */
  async #begin(owner: string | undefined) {
    const user = await session.get().then(
      (found) => found.user_name,
      () => "",
    );
    this.#user = user;
    if (owner !== undefined && user !== "" && owner !== "" && owner !== user) {
      this.context.set("");
      this.cells.set(atLeastOne([]));
    }
    this.history.set(storedHistory(user, this.id));
    this.#runs.goOn();
  }

  /** The cluster has been started again: it has none of the sessions before. */
  startedAgain(incarnation: string) {
    if (this.#runs.startedAgain(incarnation)) this.#saveSoon();
  }

  change(id: number, change: Partial<Cell>) {
    this.cells.set(list.changed(this.cells.get(), id, change));
  }

  /** A new cell beside another one; returns its id. */
  add(beside: number, by: 0 | 1): number {
    const cells = this.cells.get();
    const at = cells.findIndex((each) => each.id === beside);
    const [now, id] = list.inserted(cells, at + by, cells[at]?.language ?? "python");
    if (now.length > list.MOST_CELLS) return beside;
    this.cells.set(now);
    return id;
  }

  remove(id: number) {
    this.stop(id);
    this.cells.set(list.removed(this.cells.get(), id));
  }

  move(id: number, by: number) {
    this.cells.set(list.moved(this.cells.get(), id, by));
  }

  clear() {
    for (const each of this.cells.get()) this.stop(each.id);
    this.cells.set(atLeastOne([]));
  }

  run(id: number) {
    const cell = this.cells.get().find((each) => each.id === id);
    const code = cell?.code.trim() ?? "";
    if (cell === undefined || code === "" || waits(cell.run)) return;
    this.history.set(remembered(storedHistory(this.#user, this.id), { language: cell.language, code: cell.code }));
    storeHistory(this.#user, this.id, this.history.get());
    this.#runs.run(id, cell.language, code);
  }

  /** Cancels what a cell runs. */
  stop(id: number) {
    this.#runs.stop(id);
  }

  /** Ends the session with all its variables. */
  endSession(): Promise<void> {
    return this.#runs.endSession();
  }

  get #key() {
    return `brickyard.console.${this.id}`;
  }

  #read(): Partial<Stored> {
    try {
      return (JSON.parse(sessionStorage.getItem(this.#key) ?? "{}") as Partial<Stored> | null) ?? {};
    } catch {
      return {};
    }
  }

  #saveSoon() {
    clearTimeout(this.#timer);
    this.#timer = window.setTimeout(() => this.#save(), SAVE_MS);
  }

  #save() {
    clearTimeout(this.#timer);
    const stored = { user: this.#user, ...this.#runs.session };
    const cells = this.cells.get();
    try {
      sessionStorage.setItem(this.#key, JSON.stringify({ ...stored, cells: list.kept(cells) }));
    } catch {
      const bare = cells.map(({ run: _, ...cell }) => cell); // the storage is full: the code alone
      try {
        sessionStorage.setItem(this.#key, JSON.stringify({ ...stored, cells: bare }));
      } catch {
        // A browser without storage forgets it with the page.
      }
    }
  }
}

const atLeastOne = (cells: Cell[]): Cell[] => (cells.length > 0 ? cells : [{ id: 1, language: "python", code: "" }]);

const known = new Map<string, Notebook>();

/** The console of a cluster. `attached`: what is attached to the cluster may have changed. */
export function notebookOf(id: string, attached: () => void): Notebook {
  const found = known.get(id) ?? new Notebook(id, attached);
  known.set(id, found);
  return found;
}
