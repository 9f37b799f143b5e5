import { ApiError, isGone, words } from "../api/client";
import { Value } from "../lib/value";
import { Overtaken, read, type Stored, write } from "./calls";
import type { Draft, Drafts, OtherDraft } from "./drafts";

export type SaveState =
  | { kind: "saved" }
  | { kind: "waiting" } // edited a moment ago
  | { kind: "saving" }
  | { kind: "trouble"; why: string } // tried again soon
  | { kind: "refused"; why: string } // until it is edited again
  /** Without `theirs`, the notebook was deleted. */
  | { kind: "conflict"; theirs: Stored | undefined };

const DRAFT_MS = 300;
const SAVE_MS = 1500;
const LONGEST_MS = 10_000; // while somebody types without a pause
const AGAIN_MS = 5000;

type Calls = { read: typeof read; write: typeof write };

/**
 * Saves a notebook while it is edited, and never over what somebody else has saved. Until it is saved, the browser keeps what was typed.
 * `source` prints the notebook as it is now.
 */
export class Saver {
  readonly state = new Value<SaveState>({ kind: "saved" });
  /** Whether what is not saved is only in this page: the browser does not keep it. */
  readonly atRisk = new Value(false);
  base: Stored;
  #timer = 0;
  #draftTimer = 0;
  #since = 0; // when the first edit was made that is not saved
  #saving: Promise<void> | null = null;

  constructor(
    readonly path: string,
    stored: Stored,
    readonly drafts: Drafts,
    readonly source: () => string,
    readonly calls: Calls = { read, write },
  ) {
    this.base = stored;
  }

  get unsaved(): boolean {
    return this.state.get().kind !== "saved";
  }

  /** What this browser has kept of edits that were not saved, by this tab or else by `other`, which is closed: the text to show, or
   * undefined. */
  restore(other?: OtherDraft): string | undefined {
    const draft = this.drafts.read();
    if (draft === undefined) return other && this.adopt(other);
    if (draft.source !== this.base.source) return this.#goOnWith(draft);
    this.drafts.forget(draft.source);
    return undefined;
  }

  /** Goes on with the draft of another tab: the text to show. This tab has nothing that is not saved. */
  adopt({ tab, closed: _, ...draft }: OtherDraft): string | undefined {
    if (draft.source !== this.base.source) {
      if (this.drafts.write(draft)) this.drafts.forget(draft.source, tab);
      return this.#goOnWith(draft);
    }
    this.drafts.forget(draft.source, tab);
    return undefined;
  }

  /** Edits of content that somebody has changed since are a conflict. */
  #goOnWith(draft: Draft): string {
    const same = draft.base.etag !== "" ? draft.base.etag === this.base.etag : draft.base.source === this.base.source;
    if (same) {
      this.state.set({ kind: "waiting" });
      this.#soon(SAVE_MS);
    } else {
      const theirs = this.base;
      this.base = { ...theirs, ...draft.base };
      this.state.set({ kind: "conflict", theirs });
    }
    return draft.source;
  }

  /** The notebook was edited. */
  edited() {
    clearTimeout(this.#draftTimer);
    this.#draftTimer = window.setTimeout(() => this.#keep(), DRAFT_MS);
    if (this.state.get().kind === "conflict") return;
    if (this.#since === 0) this.#since = Date.now();
    if (this.#saving === null) this.state.set({ kind: "waiting" });
    this.#soon(Math.max(0, Math.min(SAVE_MS, this.#since + LONGEST_MS - Date.now())));
  }

  /** Saves now what is not saved. `anew`: even if the notebook was deleted. */
  flush(keepalive = false, anew = false): Promise<void> {
    clearTimeout(this.#timer);
    const { kind } = this.state.get();
    if (kind === "saved" || kind === "conflict") return this.#saving ?? Promise.resolve();
    this.#keep();
    // A save that is on its way is followed by one of what was typed since.
    const saving = (this.#saving ?? Promise.resolve()).then(() => this.#save(keepalive, anew));
    this.#saving = saving;
    const over = () => {
      if (this.#saving === saving) this.#saving = null;
    };
    return saving.then(over, over);
  }

  /** Replaces what others have saved. It stays among the versions. */
  async keepMine() {
    const { theirs } = this.#conflict();
    if (theirs) this.base = theirs;
    else this.base = { ...this.base, etag: "" };
    this.state.set({ kind: "waiting" });
    await this.flush(false, theirs === undefined);
  }

  /** Drops what is not saved. The caller shows `base`. */
  takeTheirs() {
    const { theirs } = this.#conflict();
    if (theirs === undefined) return;
    this.base = theirs;
    this.#forget();
    this.state.set({ kind: "saved" });
  }

  /** Looks whether somebody else has saved; the newer content, or undefined. While something is not saved, the next save finds out. */
  async newer(modified: number): Promise<Stored | undefined> {
    if (this.unsaved || modified === this.base.modified) return undefined;
    const { base } = this;
    const found = await this.calls.read(this.path);
    if (this.unsaved || this.base !== base) return undefined; // it may be from before a save
    const same = found.source === this.base.source && found.language === this.base.language;
    this.base = found;
    return same ? undefined : found;
  }

  #conflict() {
    const state = this.state.get();
    if (state.kind !== "conflict") throw new Error("There is no conflict.");
    return state;
  }

  #soon(ms: number) {
    clearTimeout(this.#timer);
    this.#timer = window.setTimeout(() => void this.flush(), ms);
  }

  #keep() {
    clearTimeout(this.#draftTimer);
    if (!this.unsaved) return;
    const { etag } = this.base;
    const base = { etag, source: etag === "" ? this.base.source : "" };
    this.atRisk.set(!this.drafts.write({ source: this.source(), base, at: Date.now() }));
  }

  #forget() {
    clearTimeout(this.#draftTimer);
    const draft = this.drafts.read();
    if (draft) this.drafts.forget(draft.source);
    this.atRisk.set(false);
    this.#since = 0;
  }

  async #save(keepalive: boolean, anew: boolean) {
    const { kind } = this.state.get();
    if (kind === "saved" || kind === "conflict") return; // by the save before
    const source = this.source();
    const { language, modified } = this.base;
    if (source === this.base.source && !anew) {
      this.#forget();
      this.state.set({ kind: "saved" });
      return;
    }
    this.#since = 0;
    this.state.set({ kind: "saving" });
    try {
      const base = anew ? undefined : this.base;
      const etag = await this.calls.write({ path: this.path, language, source, base, keepalive });
      this.base = { ...this.base, source, etag, modified };
      if (this.source() === source) {
        this.drafts.forget(source);
        this.atRisk.set(false);
        this.state.set({ kind: "saved" });
      } else {
        this.state.set({ kind: "waiting" });
        this.#soon(SAVE_MS);
      }
    } catch (error) {
      await this.#failed(error, source);
    }
  }

  async #failed(error: unknown, source: string) {
    this.#keep();
    if (error instanceof ApiError && error.status === 403)
      return this.state.set({ kind: "refused", why: error.message });
    if (error instanceof Overtaken || (isGone(error) && error.code === "RESOURCE_DOES_NOT_EXIST")) {
      try {
        const theirs = error instanceof Overtaken ? await this.calls.read(this.path) : undefined;
        if (theirs?.source === source) {
          this.base = theirs;
          this.state.set({ kind: "waiting" });
          return this.#soon(0);
        }
        return this.state.set({ kind: "conflict", theirs });
      } catch (other) {
        if (isGone(other)) return this.state.set({ kind: "conflict", theirs: undefined });
        error = other;
      }
    }
    if (isGone(error)) return this.state.set({ kind: "refused", why: words(error) });
    this.state.set({ kind: "trouble", why: words(error) });
    this.#soon(AGAIN_MS);
  }
}
