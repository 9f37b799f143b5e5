import { openTabs, tabName } from "../lib/tab";

/** What was typed and is not saved yet. */
export interface Draft {
  source: string;
  base: { etag: string; source: string }; // what it changes
  at: number; // epoch ms
}

/** A draft of another tab. `closed`: that tab is closed, or has crashed. */
export interface OtherDraft extends Draft {
  tab: string;
  closed: boolean;
}

const PREFIX = "brickyard.notebook.draft.";

/** Of one notebook, in the browser's storage: they outlive a reload, a closed tab and a server that is gone. Each tab has its own. */
export class Drafts {
  constructor(
    readonly user: string,
    readonly path: string,
    readonly tab: string,
    readonly storage: Storage | undefined,
    readonly tabs: () => Promise<Set<string> | undefined> = openTabs,
  ) {}

  static async of(user: string, path: string): Promise<Drafts> {
    let storage: Storage | undefined;
    try {
      storage = localStorage;
    } catch {
      // A browser that keeps nothing.
    }
    return new Drafts(user, path, await tabName(), storage);
  }

  read(): Draft | undefined {
    return this.#read(this.tab);
  }

  /** Whether the browser keeps it. */
  write(draft: Draft): boolean {
    try {
      if (this.storage === undefined) return false;
      this.storage.setItem(this.#key(this.tab), JSON.stringify(draft));
      return true;
    } catch {
      return false; // a full storage
    }
  }

  /** Forgets a tab's draft, unless it is another one by now. */
  forget(source: string, tab: string = this.tab) {
    if (this.#read(tab)?.source === source) this.storage?.removeItem(this.#key(tab));
  }

  /** Those of other tabs, the newest first. */
  async others(): Promise<OtherDraft[]> {
    const open = await this.tabs();
    return this.#names()
      .filter((tab) => tab !== this.tab)
      .flatMap((tab) => {
        const draft = this.#read(tab);
        return draft ? [{ ...draft, tab, closed: open !== undefined && !open.has(tab) }] : [];
      })
      .sort((one, other) => other.at - one.at);
  }

  #key(tab: string) {
    return PREFIX + JSON.stringify([this.user, this.path, tab]);
  }

  #names(): string[] {
    const storage = this.storage;
    if (storage === undefined) return [];
    const keys = Array.from({ length: storage.length }, (_, at) => storage.key(at) ?? "");
    return keys.flatMap((key) => {
      if (!key.startsWith(PREFIX)) return [];
      try {
        const [user, path, tab] = JSON.parse(key.slice(PREFIX.length)) as string[];
        return user === this.user && path === this.path && tab !== undefined ? [tab] : [];
      } catch {
        return [];
      }
    });
  }

  #read(tab: string): Draft | undefined {
    try {
      const found = JSON.parse(this.storage?.getItem(this.#key(tab)) ?? "null") as Draft | null;
      return typeof found?.source === "string" && typeof found.base?.etag === "string" ? found : undefined;
    } catch {
      return undefined; // a text of something else
    }
  }
}
