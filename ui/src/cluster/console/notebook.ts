import { isGone, words } from "../../api/client";
import { session } from "../../api/session";
import { begin, cancel, end, execute, type Language, outcome, resultOf } from "../../code/commands";
import { Value } from "../../lib/value";
import * as list from "./cells";
import { type Cell, type Run, waits } from "./cells";
import { type Ran, remembered, storedHistory, storeHistory } from "./history";

const SAVE_MS = 400;

interface Stored {
  user: string;
  incarnation: string;
  context: string;
  cells: Cell[];
}

/** The console of one cluster in this browser's tab: its cells, its session, and what runs. It outlives the component that shows it,
 * and is kept over a reload. */
export class Notebook {
  readonly cells: Value<Cell[]>;
  readonly context = new Value("");
  readonly history = new Value<Ran[]>([]);
  #user = "";
  #incarnation = "";
  #opening: Promise<string> | null = null;
  #sending: Promise<unknown> = Promise.resolve(); // commands are sent in the order in which they were run
  #timer = 0;

  constructor(
    readonly id: string,
    readonly attached: () => void,
  ) {
    const stored = this.#read();
    this.#user = stored.user ?? "";
    this.cells = new Value(atLeastOne(list.read(JSON.stringify(stored.cells ?? []))));
    this.#incarnation = stored.incarnation ?? "";
    this.context.set(stored.context ?? "");
    this.cells.subscribe(() => this.#saveSoon());
    this.context.subscribe(() => this.#saveSoon());
    addEventListener("pagehide", () => this.#save());
    void this.#begin(stored.user);
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
    for (const cell of this.cells.get()) {
      const { run } = cell;
      if (run?.commandId === undefined || run.contextId === undefined) continue;
      if (waits(run)) void this.#follow(cell.id, run.begun, run.contextId, run.commandId);
      else if (run.dropped) void this.#fetch(cell.id, run.begun, run.contextId, run.commandId);
    }
  }

  /** The cluster has been started again: it has none of the sessions before. */
  startedAgain(incarnation: string) {
    if (incarnation === this.#incarnation) return;
    const first = this.#incarnation === "";
    this.#incarnation = incarnation;
    if (!first) this.#forget();
    this.#saveSoon();
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
    const begun = Math.max(Date.now(), (cell.run?.begun ?? 0) + 1);
    this.change(id, { run: { status: "Starting", begun } });
    const sent = this.#sending.then(() => this.#send(id, begun, cell.language, code));
    this.#sending = sent.catch(() => {});
    sent.then(
      (found) => found && this.#follow(id, begun, found.contextId, found.commandId),
      (error: unknown) => this.#over(id, begun, { status: "Error", failure: words(error) }),
    );
  }

  /** Cancels what a cell runs. */
  stop(id: number) {
    const run = this.cells.get().find((each) => each.id === id)?.run;
    if (run === undefined || !waits(run) || run.contextId === undefined || run.commandId === undefined) {
      if (run?.status === "Starting") this.#over(id, run.begun, { status: "Cancelled" });
      return;
    }
    this.#tell(id, run.begun, { status: "Cancelling" });
    cancel(this.id, run.contextId, run.commandId).catch((error: unknown) =>
      this.#tell(id, run.begun, { note: words(error) }),
    );
  }

  /** Ends the session with all its variables. */
  async endSession() {
    const old = this.context.get();
    this.#forget();
    if (old === "") return;
    try {
      await end(this.id, old);
    } catch {
      // It was gone already.
    }
    this.attached();
  }

  #run(id: number, begun: number): Run | undefined {
    const run = this.cells.get().find((each) => each.id === id)?.run;
    return run?.begun === begun ? run : undefined;
  }

  /** Sends the command; undefined if it was cancelled before. A session that is gone is replaced, once. */
  async #send(id: number, begun: number, language: Language, code: string) {
    for (let again = false; ; again = true) {
      const contextId = await this.#session();
      if (this.#run(id, begun)?.status !== "Starting") return undefined;
      try {
        const commandId = await execute(this.id, contextId, language, code);
        const cancelled = this.#run(id, begun)?.status !== "Starting";
        if (cancelled) void cancel(this.id, contextId, commandId).catch(() => {});
        if (cancelled) return undefined;
        const note = again ? "The session before had ended, so this is a new one without its variables." : undefined;
        this.#tell(id, begun, { status: "Queued", contextId, commandId, note });
        return { contextId, commandId };
      } catch (error) {
        const gone = isGone(error) && /context/i.test(error.message);
        if (gone && this.context.get() === contextId) this.#forget();
        if (!gone || again) throw error;
      }
    }
  }

  async #follow(id: number, begun: number, contextId: string, commandId: string) {
    try {
      const found = await outcome(
        this.id,
        contextId,
        commandId,
        (status, progress) => this.#tell(id, begun, { status, progress }),
        () => this.#run(id, begun) !== undefined,
      );
      if (found) this.#over(id, begun, { status: found.status, result: found.result });
    } catch (error) {
      if (isGone(error) && this.context.get() === contextId) this.#forget();
      this.#over(id, begun, { status: "Error", failure: words(error) });
    }
  }

  /** Reads a result again that was too large to be kept here: its session may still have it. */
  async #fetch(id: number, begun: number, contextId: string, commandId: string) {
    const result = await resultOf(this.id, contextId, commandId).catch(() => undefined);
    if (result) this.#tell(id, begun, { result, dropped: undefined });
  }

  #session(): Promise<string> {
    const known = this.context.get();
    if (known !== "") return Promise.resolve(known);
    const incarnation = this.#incarnation;
    this.#opening ??= begin(this.id, "python")
      .then((made) => {
        if (incarnation === this.#incarnation) this.context.set(made);
        this.attached();
        return made;
      })
      .finally(() => {
        this.#opening = null;
      });
    return this.#opening;
  }

  #forget() {
    this.context.set("");
    this.#opening = null;
  }

  #tell(id: number, begun: number, news: Partial<Run>) {
    this.cells.set(list.told(this.cells.get(), id, begun, news));
  }

  #over(id: number, begun: number, news: Partial<Run>) {
    this.#tell(id, begun, { ...news, progress: undefined, took: Date.now() - begun });
    this.attached();
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
    const stored = { user: this.#user, incarnation: this.#incarnation, context: this.context.get() };
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
