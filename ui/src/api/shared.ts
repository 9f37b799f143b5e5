/** A stream of server-sent events that all tabs of a browser share.
 *
 * A browser has six connections to a server (HTTP/1.1), so a stream in each tab would leave none for calls. One visible tab at a time
 * leads: it holds the Web Lock and the stream, and passes each event on to the others (BroadcastChannel). While every tab is hidden
 * there is no stream. Each message names the event before it, so a tab that has missed some knows, and reads everything again.
 *
 * Where a page has no Web Locks, as on plain HTTP beyond this machine, each visible tab has a stream of its own.
 */

/** How long a hidden tab goes on leading: one that looks into another tab for a moment comes back to the same stream. */
const LINGER_MS = 5_000;
const RETRY_MS = 5_000;

export interface Events {
  /** `data` of an event of that kind. */
  event(kind: string, data: string): void;
  /** Some events were missed: anything may have changed. */
  missed(): void;
  /** Whether events come. */
  live(is: boolean): void;
}

interface Message {
  live: boolean;
  id: string; // of the last event
  before?: string; // the id of the one before it, if this tells of an event
  kind?: string;
  data?: string;
}

const ASKS = "asks";

class Position {
  constructor(readonly key: string) {}

  get(): string {
    try {
      return localStorage.getItem(this.key) ?? "";
    } catch {
      return "";
    }
  }

  set(id: string) {
    try {
      localStorage.setItem(this.key, id);
    } catch {
      // The next leader is told that anything may have changed.
    }
  }
}

export class SharedStream {
  readonly #name: string;
  readonly #url: (after: string) => string;
  readonly #kinds: readonly string[];
  readonly #events: Events;
  readonly #channel: BroadcastChannel | null;
  readonly #position: Position;
  #id: string | null = null; // of the last event that this tab knows of; null: none yet
  #stale = false; // something came while the tab was hidden
  #stream: EventSource | null = null;
  #live = false; // the stream that this tab leads
  #campaign: AbortController | null = null; // while this tab leads or waits for its turn
  #resign: (() => void) | null = null; // while it leads
  #timer = 0;
  #lingers = 0;

  constructor(name: string, kinds: readonly string[], url: (after: string) => string, events: Events) {
    this.#name = name;
    this.#kinds = kinds;
    this.#url = url;
    this.#events = events;
    this.#position = new Position(`${name}.position`);
    this.#channel = "locks" in navigator && "BroadcastChannel" in window ? new BroadcastChannel(name) : null;
    this.#channel?.addEventListener("message", ({ data }) => this.#heard(data as Message | typeof ASKS));
    document.addEventListener("visibilitychange", () => this.#look());
    addEventListener("pagehide", () => this.#leave());
    addEventListener("pageshow", ({ persisted }) => persisted && this.#look());
    this.#look();
  }

  #look() {
    clearTimeout(this.#lingers);
    if (document.hidden) {
      this.#lingers = window.setTimeout(() => this.#leave(), LINGER_MS);
      return;
    }
    if (this.#stale) this.#catchUp();
    this.#channel?.postMessage(ASKS);
    this.#run();
  }

  /** Leads once no other tab does. */
  #run() {
    if (this.#campaign !== null) return;
    const campaign = new AbortController();
    this.#campaign = campaign;
    if (this.#channel === null) {
      this.#resign = () => {};
      this.#open();
      return;
    }
    const turn = () =>
      new Promise<void>((done) => {
        if (campaign.signal.aborted) return done();
        this.#resign = done;
        this.#open();
      });
    navigator.locks.request(this.#name, { signal: campaign.signal }, turn).catch(() => {}); // it was no longer wanted
  }

  #leave() {
    this.#campaign?.abort();
    this.#campaign = null;
    clearTimeout(this.#timer);
    this.#stream?.close();
    this.#stream = null;
    this.#resign?.();
    this.#resign = null;
  }

  #open() {
    const stream = new EventSource(this.#url(this.#id || this.#position.get()));
    this.#stream = stream;
    stream.onopen = () => this.#tell({ live: true, id: this.#position.get() });
    for (const kind of this.#kinds)
      stream.addEventListener(kind, (event) => {
        const { data, lastEventId } = event as MessageEvent<string>;
        const before = this.#position.get();
        this.#position.set(lastEventId);
        this.#tell({ live: true, id: lastEventId, before, kind, data });
      });
    stream.onerror = () => {
      this.#tell({ live: false, id: this.#position.get() });
      if (stream.readyState !== EventSource.CLOSED) return; // the browser tries again by itself
      this.#timer = window.setTimeout(() => this.#open(), RETRY_MS);
    };
  }

  #tell(message: Message) {
    this.#live = message.live;
    this.#channel?.postMessage(message);
    this.#take(message);
  }

  #heard(message: Message | typeof ASKS) {
    if (message !== ASKS) return this.#take(message);
    if (this.#resign !== null) this.#channel?.postMessage({ live: this.#live, id: this.#position.get() });
  }

  #take({ live, id, before, kind, data }: Message) {
    this.#events.live(live);
    const known = this.#id;
    this.#id = id;
    if (kind === undefined || data === undefined) {
      if (live && known !== id) this.#miss();
    } else if (known !== before && kind !== "reset") this.#miss();
    else if (document.hidden) this.#stale = true;
    else this.#events.event(kind, data);
  }

  #miss() {
    if (document.hidden) this.#stale = true;
    else this.#catchUp();
  }

  #catchUp() {
    this.#stale = false;
    this.#events.missed();
  }
}
