import type { Book } from "../cluster/console/cellfocus";
import {
  afterReload,
  changed,
  failed,
  kept,
  moved,
  nextId,
  type Run,
  type Runnable,
  waits,
} from "../cluster/console/cells";
import { type KeptSession, Runs } from "../cluster/console/runs";
import type { Language } from "../code/commands";
import { keptValue } from "../lib/kept";
import { Value } from "../lib/value";
import type { Stored } from "./calls";
import { commandOf } from "./commands";
import type { Drafts, OtherDraft } from "./drafts";
import { Saver } from "./saver";
import { type Kind, parsed, printed, retyped, type Source, type SourceCell } from "./source";
import { chose, heard, NO_WIDGETS, type WidgetState } from "./widgets";

export interface NotebookCell extends SourceCell, Runnable {}

/** What is kept of a notebook's runs over a reload, in this tab. */
interface KeptRuns extends KeptSession {
  cluster: string;
  queue: number[]; // places of cells
  runs: { at: number; kind: Kind; code: string; run: Run }[];
  widgets?: WidgetState;
}

const KEEP_MS = 400;
/** The cluster that was attached last. */
const lastCluster = keptValue("notebook.cluster", "");

/** A notebook that is open: its cells, what of it is saved, and what runs. It outlives the component that shows it. */
export class OpenNotebook implements Book {
  readonly cells: Value<NotebookCell[]>;
  readonly saver: Saver;
  readonly runs = new Value<Runs<NotebookCell> | null>(null);
  /** Cells that "Run all" has still to run; the first one has been started. */
  readonly queue = new Value<number[]>([]);
  readonly widgets = new Value<WidgetState>(NO_WIDGETS);
  language: Language;
  #source: Omit<Source, "cells">;
  #timer = 0;

  constructor(
    readonly user: string,
    readonly path: string,
    stored: Stored,
    readonly drafts: Drafts,
    closed?: OtherDraft,
  ) {
    this.saver = new Saver(path, stored, drafts, () => this.source());
    const draft = this.saver.restore(closed);
    const { cells, ...source } = parsed(draft ?? stored.source, stored.language);
    this.#source = source;
    this.language = stored.language;
    this.cells = new Value(numbered(cells));
    this.#recall();
    this.cells.subscribe(() => {
      this.#goOn();
      this.#keepSoon();
    });
    for (const each of [this.queue, this.widgets]) each.subscribe(() => this.#keepSoon());
    addEventListener("pagehide", () => {
      this.#keep();
      void this.saver.flush(true);
    });
    document.addEventListener("visibilitychange", () => document.hidden && void this.saver.flush());
  }

  source(): string {
    return printed({ ...this.#source, cells: this.cells.get() });
  }

  /** Shows another content, with the results of the cells that are the same. */
  show(stored: Pick<Stored, "source" | "language">) {
    const { cells, ...source } = parsed(stored.source, stored.language);
    this.#source = source;
    this.language = stored.language;
    const before = this.cells.get();
    const used = new Set<number>();
    const now = cells.map((cell, at) => {
      const same = (each: NotebookCell | undefined) =>
        each !== undefined && !used.has(each.id) && each.kind === cell.kind && each.code === cell.code;
      const found = same(before[at]) ? before[at] : before.find(same);
      if (found) used.add(found.id);
      return found ? { ...cell, id: found.id, run: found.run } : cell;
    });
    this.cells.set(numbered(now, nextId(before)));
  }

  // --- what people change ---

  #edit(cells: NotebookCell[]) {
    if (cells === this.cells.get()) return;
    this.cells.set(cells);
    this.saver.edited();
  }

  type(id: number, code: string) {
    const cell = this.cells.get().find((each) => each.id === id);
    if (cell === undefined || cell.code === code) return;
    this.#edit(changed(this.cells.get(), id, retyped(code, cell.kind, this.language) ?? { code }));
  }

  /** Gives a cell a title; "" takes it away. */
  entitle(id: number, title: string) {
    this.#edit(changed(this.cells.get(), id, { title: title.replaceAll(/[\r\n]/g, " ") }));
  }

  turn(id: number, kind: Kind) {
    this.#edit(changed(this.cells.get(), id, { kind }));
  }

  add(beside: number, by: 0 | 1, kind: Kind = this.language): number {
    const cells = this.cells.get();
    const id = nextId(cells);
    const at = cells.findIndex((each) => each.id === beside) + by;
    this.#edit(cells.toSpliced(at, 0, { id, kind, code: "", title: "" }));
    return id;
  }

  move(id: number, by: number) {
    this.#edit(moved(this.cells.get(), id, by));
  }

  remove(id: number) {
    this.stop(id);
    const rest = this.cells.get().filter((each) => each.id !== id);
    const empty = { id: nextId(this.cells.get()), kind: this.language, code: "", title: "" };
    this.#edit(rest.length > 0 ? rest : [empty]);
  }

  /** Replaces all of it, as an edit. */
  replace(source: string) {
    this.show({ source, language: this.language });
    this.saver.edited();
  }

  /** Goes on with what another tab has not saved. */
  adopt(draft: OtherDraft) {
    const source = this.saver.adopt(draft);
    if (source !== undefined) this.show({ source, language: this.language });
  }

  // --- what runs ---

  get cluster(): string {
    return this.runs.get()?.cluster ?? "";
  }

  /** Attaches to another cluster; "" detaches. What runs on the last one ends. */
  attach(cluster: string, attached: () => void) {
    const old = this.runs.get();
    if (old?.cluster === cluster) return;
    this.stopAll();
    if (old) void old.endSession();
    if (cluster !== "") lastCluster.set(cluster);
    this.runs.set(cluster === "" ? null : this.#session(cluster, attached));
    this.#keepSoon();
  }

  /** The cluster to begin with; "" if none was chosen yet. */
  suggested(): string {
    return this.cluster || lastCluster.get();
  }

  run(id: number) {
    const cell = this.cells.get().find((each) => each.id === id);
    if (cell === undefined || waits(cell.run)) return;
    const command = commandOf(cell, this.language, this.path);
    if (command) this.runs.get()?.run(id, command.language, command.command);
  }

  /** Runs all cells, one after the other, until one fails. `from`: that one and those below. */
  runAll(from?: number) {
    const cells = this.cells.get();
    const at = from === undefined ? 0 : cells.findIndex((each) => each.id === from);
    const wanted = cells.slice(at).filter((each) => commandOf(each, this.language, this.path) !== undefined);
    this.queue.set(wanted.map((each) => each.id));
    const [first] = wanted;
    if (first) this.run(first.id);
  }

  /** Gives a widget a value, for the runs from now on. */
  choose(name: string, value: string) {
    this.widgets.set(chose(this.widgets.get(), name, value));
  }

  stop(id: number) {
    this.runs.get()?.stop(id);
  }

  stopAll() {
    this.queue.set([]);
    for (const each of this.cells.get()) if (waits(each.run)) this.stop(each.id);
  }

  clear() {
    const bare = ({ run, ...cell }: NotebookCell): NotebookCell => (waits(run) ? { ...cell, run } : cell);
    this.cells.set(this.cells.get().map(bare));
  }

  /** The next cell of "Run all", once the one before is over. */
  #goOn() {
    const [now, ...rest] = this.queue.get();
    if (now === undefined) return;
    const run = this.cells.get().find((each) => each.id === now)?.run;
    if (run && waits(run)) return;
    const stops = run !== undefined && (failed(run) || run.status === "Cancelled" || run.result?.exited);
    this.queue.set(stops ? [] : rest);
    if (!stops && rest[0] !== undefined) this.run(rest[0]);
  }

  // --- over a reload ---

  #session(cluster: string, attached: () => void, stored: Partial<KeptSession> = {}): Runs<NotebookCell> {
    const made = new Runs<NotebookCell>(cluster, this.cells, attached, stored, {
      chosen: () => this.widgets.get().chosen,
      told: (widgets, session, sent) => this.widgets.set(heard(this.widgets.get(), widgets, session, sent)),
    });
    made.context.subscribe(() => this.#keepSoon());
    return made;
  }

  get #key() {
    return `brickyard.notebook.runs.${this.user}.${this.path}`;
  }

  #recall() {
    let stored: Partial<KeptRuns>;
    try {
      stored = (JSON.parse(sessionStorage.getItem(this.#key) ?? "{}") as Partial<KeptRuns> | null) ?? {};
    } catch {
      return;
    }
    const cells = [...this.cells.get()];
    for (const { at, kind, code, run } of stored.runs ?? []) {
      const cell = cells[at];
      if (cell?.kind === kind && cell.code === code) cells[at] = afterReload({ ...cell, run });
    }
    this.cells.set(cells);
    if (stored.widgets) this.widgets.set(stored.widgets);
    if (!stored.cluster) return;
    const runs = this.#session(stored.cluster, () => {}, stored);
    this.runs.set(runs);
    this.queue.set((stored.queue ?? []).flatMap((at) => cells[at]?.id ?? []));
    runs.goOn();
    queueMicrotask(() => this.#goOn()); // the cell that ran may be over
  }

  #keepSoon() {
    clearTimeout(this.#timer);
    this.#timer = window.setTimeout(() => this.#keep(), KEEP_MS);
  }

  #keep() {
    clearTimeout(this.#timer);
    const cells = this.cells.get();
    const runs = kept(cells).flatMap(({ kind, code, run }, at) => (run ? [{ at, kind, code, run }] : []));
    const queue = this.queue.get().map((id) => cells.findIndex((each) => each.id === id));
    const session = this.runs.get()?.session ?? { incarnation: "", context: "" };
    const widgets = this.widgets.get();
    const stored: KeptRuns = { cluster: this.cluster, ...session, queue: queue.filter((at) => at >= 0), runs, widgets };
    try {
      sessionStorage.setItem(this.#key, JSON.stringify(stored));
    } catch {
      // A browser without storage, or with a full one, forgets the results with the page.
    }
  }
}

const numbered = (cells: (SourceCell & Partial<NotebookCell>)[], from = 1): NotebookCell[] =>
  cells.map((each, at) => ({ ...each, id: each.id ?? from + at }));

const open = new Map<string, OpenNotebook>();

/** What is asked for before a notebook is shown. */
export interface Opening {
  user: string;
  stored: Stored;
  drafts: Drafts;
  others: OtherDraft[];
  /** What an open notebook had saved when `stored` was asked for. */
  over?: Stored;
}

const keyOf = (user: string, path: string) => JSON.stringify([user, path]);

/** What is saved of a notebook that is open in this tab. */
export const savedOf = (user: string, path: string) => open.get(keyOf(user, path))?.saver.base;

/** The notebook that is open in this tab, with what the workspace has of it now. */
export function opened(path: string, { user, stored, drafts, others, over }: Opening): OpenNotebook {
  const key = keyOf(user, path);
  const found = open.get(key);
  if (found === undefined) {
    const made = new OpenNotebook(user, path, stored, drafts, adoptable(others, stored));
    open.set(key, made);
    return made;
  }
  if (found.saver.unsaved || found.saver.base !== over) return found; // `stored` may be from before a save
  if (stored.source !== over.source) found.show(stored);
  found.saver.base = stored;
  return found;
}

/** What a closed tab has not saved, if it is the only one: between several, people choose. */
function adoptable(others: OtherDraft[], stored: Stored): OtherDraft | undefined {
  const [first, ...more] = others.filter((each) => each.source !== stored.source);
  return first?.closed && more.length === 0 ? first : undefined;
}
