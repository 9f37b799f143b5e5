import { api, body, words } from "../api/client";

const TAIL = 256 << 10; // bytes that are read first: the end
const MOST_LINES = 100_000; // in the page; the whole log can be downloaded
const AGAIN_MS = 5000;
const LOOK_MS = [700, 2000] as const; // between two looks: shortest, and longest where nothing new was for some time

export interface LogView {
  lines: readonly string[]; // the last one may not be complete
  start: number; // where they begin in the log, in bytes
  state: "reading" | "following" | "ended" | "lost";
  error: string;
}

/** One log of a cluster: its end, and what is written from then on. It goes on after a lost connection where it was.
 *
 * It asks for more again and again, and only while the tab is visible: a stream would hold one of the six connections that a browser
 * has to a server, and a few logs in as many windows would leave none.
 */
export class LogFeed {
  #view: LogView = { lines: [], start: 0, state: "reading", error: "" };
  #listeners = new Set<() => void>();
  #lines: string[] = [];
  #position = "";
  #timer = 0;
  #pause: number = LOOK_MS[0];
  #closed = false;

  constructor(
    readonly cluster: string,
    readonly file: string,
  ) {}

  get = () => this.#view;

  subscribe = (listener: () => void) => {
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
    };
  };

  async open() {
    try {
      const found = await this.#read({ offset: -TAIL, limit: TAIL });
      if (this.#closed) return;
      this.#lines = [];
      this.#append(found.text);
      this.#position = found.next_position;
      this.#show({ start: found.offset, error: "", state: found.running || !found.at_end ? "following" : "ended" });
      if (found.running || !found.at_end) this.#follow();
    } catch (error) {
      this.#lost(words(error), () => void this.open());
    }
  }

  close() {
    this.#closed = true;
    clearTimeout(this.#timer);
    document.removeEventListener("visibilitychange", this.#seen);
  }

  /** Reads what is before the beginning; returns how many lines have come. */
  async earlier(): Promise<number> {
    const offset = Math.max(0, this.#view.start - TAIL);
    const found = await this.#read({ offset, limit: this.#view.start - offset });
    const text = found.text.split("\n");
    const joined = (text.pop() ?? "") + (this.#lines[0] ?? "");
    this.#lines = [...text, joined, ...this.#lines.slice(1)];
    this.#show({ start: found.offset });
    return text.length;
  }

  /** The whole log, in parts. */
  async whole(): Promise<string[]> {
    const parts: string[] = [];
    let position: { offset: number } | { position: string } = { offset: 0 };
    for (;;) {
      const found: Awaited<ReturnType<LogFeed["read"]>> = await this.#read({ ...position, limit: TAIL });
      parts.push(found.text);
      if (found.at_end || found.text === "") return parts;
      position = { position: found.next_position };
    }
  }

  read(query: { offset?: number; position?: string; limit?: number }) {
    return this.#read(query);
  }

  #read(query: { offset?: number; position?: string; limit?: number }) {
    const asked = { cluster_id: this.cluster, file: this.file, ...query };
    return body(api.GET("/api/2.1/clusters/logs/read", { params: { query: asked } }));
  }

  #follow() {
    this.#timer = window.setTimeout(() => void this.#look(), this.#pause);
  }

  /** Reads what has been written, or waits until somebody can see it. */
  async #look() {
    if (document.hidden) {
      document.addEventListener("visibilitychange", this.#seen);
      return;
    }
    try {
      const found = await this.#read({ position: this.#position, limit: TAIL });
      if (this.#closed) return;
      this.#position = found.next_position;
      this.#pause = found.text ? LOOK_MS[0] : Math.min(this.#pause * 1.3, LOOK_MS[1]);
      if (found.skipped) this.#append("\n... lines that no longer exist ...\n");
      if (found.text) this.#append(found.text);
      const state = found.running || !found.at_end ? "following" : "ended";
      if (found.text || found.skipped || state !== this.#view.state || this.#view.error)
        this.#show({ state, error: "" });
      if (state === "ended") return;
      if (found.at_end) this.#follow();
      else await this.#look();
    } catch (error) {
      this.#lost(words(error), () => void this.#look());
    }
  }

  #seen = () => {
    document.removeEventListener("visibilitychange", this.#seen);
    if (!this.#closed) void this.#look();
  };

  #lost(error: string, again: () => void) {
    if (this.#closed) return;
    this.#show({ state: "lost", error });
    this.#timer = window.setTimeout(again, AGAIN_MS);
  }

  #append(text: string) {
    const [first = "", ...rest] = text.split("\n");
    const last = this.#lines.length - 1;
    if (last < 0) this.#lines.push(first);
    else this.#lines[last] += first;
    for (const line of rest) this.#lines.push(line);
    if (this.#lines.length > MOST_LINES) this.#lines = this.#lines.slice(-MOST_LINES);
  }

  #show(changed: Partial<LogView>) {
    this.#view = { ...this.#view, ...changed, lines: [...this.#lines] };
    for (const listener of this.#listeners) listener();
  }
}
