import { isGone, words } from "../../api/client";
import {
  begin,
  cancel,
  end,
  execute,
  type Language,
  outcome,
  type Result,
  resultOf,
  type Widget,
} from "../../code/commands";
import { Value } from "../../lib/value";
import * as list from "./cells";
import { type Run, type Runnable, waits } from "./cells";

/** What is kept of a session over a reload. */
export interface KeptSession {
  incarnation: string; // of the cluster
  context: string;
}

const SESSION_ENDED =
  "The session ended while this command ran, with its cluster's driver. Its variables are gone. Run the cells again.";
/** What a command has printed, once nobody can ask for its result. */
const asResult = (data: string): Result => ({ resultType: "text", data });

/** The widgets of the notebook whose cells run. */
export interface Parameters {
  /** The values that a person has chosen: every command gets them. */
  chosen: () => Record<string, string>;
  /** What the session has; undefined: its process has made none. `sent`: a command that got these values has finished. */
  told: (widgets: Widget[] | undefined, session: string, sent?: Record<string, string>) => void;
}

/** Runs cells on a cluster, in a session of the user's own: commands that wait for one another, and share their variables. The cells
 * are the console's or those of a notebook. */
export class Runs<C extends Runnable> {
  readonly context = new Value("");
  #incarnation: string;
  #opening: Promise<string> | null = null;
  #sending: Promise<unknown> = Promise.resolve(); // commands are sent in the order in which they were run

  /** `attached`: what is attached to the cluster may have changed. */
  constructor(
    readonly cluster: string,
    readonly cells: Value<C[]>,
    readonly attached: () => void,
    { incarnation = "", context = "" }: Partial<KeptSession> = {},
    readonly parameters?: Parameters,
  ) {
    this.#incarnation = incarnation;
    this.context.set(context);
  }

  get session(): KeptSession {
    return { incarnation: this.#incarnation, context: this.context.get() };
  }

  /** Goes on with what ran when the page was loaded again. */
  goOn() {
    for (const { id, run } of this.cells.get()) {
      if (run?.commandId === undefined || run.contextId === undefined) continue;
      if (waits(run)) void this.#follow(id, run.begun, run.contextId, run.commandId);
      else if (run.dropped) void this.#fetch(id, run.begun, run.contextId, run.commandId);
    }
  }

  /** The cluster has been started again: it has none of the sessions before. Whether that is news. */
  startedAgain(incarnation: string): boolean {
    if (incarnation === this.#incarnation) return false;
    const first = this.#incarnation === "";
    this.#incarnation = incarnation;
    if (!first) this.forget();
    return true;
  }

  run(id: number, language: Language, code: string) {
    const before = this.cells.get().find((each) => each.id === id)?.run;
    const begun = Math.max(Date.now(), (before?.begun ?? 0) + 1);
    this.cells.set(list.changed(this.cells.get(), id, { run: { status: "Starting", begun } } as Partial<C>));
    const sent = this.#sending.then(() => this.#send(id, begun, language, code));
    this.#sending = sent.catch(() => {});
    sent.then(
      (found) => found && this.#follow(id, begun, found.contextId, found.commandId, found.widgets),
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
    cancel(this.cluster, run.contextId, run.commandId).catch((error: unknown) =>
      this.#tell(id, run.begun, { note: words(error) }),
    );
  }

  /** Ends the session with all its variables. */
  async endSession() {
    const old = this.context.get();
    this.forget();
    if (old === "") return;
    try {
      await end(this.cluster, old);
    } catch {
      // It was gone already.
    }
    this.attached();
  }

  forget() {
    this.context.set("");
    this.#opening = null;
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
        const widgets = this.parameters?.chosen() ?? {};
        const commandId = await execute(this.cluster, contextId, { language, command: code, widgets });
        const cancelled = this.#run(id, begun)?.status !== "Starting";
        if (cancelled) void cancel(this.cluster, contextId, commandId).catch(() => {});
        if (cancelled) return undefined;
        const note = again ? "The session before had ended, so this is a new one without its variables." : undefined;
        this.#tell(id, begun, { status: "Queued", contextId, commandId, note });
        return { contextId, commandId, widgets };
      } catch (error) {
        const gone = isGone(error) && /context/i.test(error.message);
        if (gone && this.context.get() === contextId) this.forget();
        if (!gone || again) throw error;
      }
    }
  }

  async #follow(id: number, begun: number, contextId: string, commandId: string, sent?: Record<string, string>) {
    const parameters = this.parameters;
    try {
      const found = await outcome(
        this.cluster,
        contextId,
        commandId,
        (status, progress, widgets) => {
          this.#tell(id, begun, { status, progress });
          parameters?.told(widgets, contextId);
        },
        () => this.#run(id, begun) !== undefined,
      );
      if (!found) return;
      if (this.context.get() === contextId)
        parameters?.told(found.widgets, contextId, found.status === "Finished" ? sent : undefined);
      this.#over(id, begun, { status: found.status, result: found.result });
    } catch (error) {
      const gone = isGone(error);
      if (gone && this.context.get() === contextId) this.forget();
      const printed = this.#run(id, begun)?.progress?.printed;
      const failure = gone ? SESSION_ENDED : words(error);
      this.#over(id, begun, { status: "Error", failure, ...(printed ? { result: asResult(printed) } : {}) });
    }
  }

  /** Reads a result again that was too large to be kept here: its session may still have it. */
  async #fetch(id: number, begun: number, contextId: string, commandId: string) {
    const result = await resultOf(this.cluster, contextId, commandId).catch(() => undefined);
    if (result) this.#tell(id, begun, { result, dropped: undefined });
  }

  #session(): Promise<string> {
    const known = this.context.get();
    if (known !== "") return Promise.resolve(known);
    const incarnation = this.#incarnation;
    this.#opening ??= begin(this.cluster, "python")
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

  #tell(id: number, begun: number, news: Partial<Run>) {
    this.cells.set(list.told(this.cells.get(), id, begun, news));
  }

  #over(id: number, begun: number, news: Partial<Run>) {
    this.#tell(id, begun, { ...news, progress: undefined, took: Date.now() - begun });
    this.attached();
  }
}
