import { words } from "../api/client";
import { Value } from "../lib/value";
import { type Answer, answerOf, type Parameter } from "../statements/execute";
import type { Piece } from "./script";

export type StepState = "Waiting" | "Pending" | "Running" | "Succeeded" | "Failed" | "Canceled" | "Not run";

/** One statement of those that run one after another. */
export interface Step {
  piece: Piece;
  state: StepState;
  took?: number; // ms
  answer?: Answer;
  failure?: string;
}

export interface Run {
  compute: string; // its id
  begun: number; // epoch ms
  took?: number; // ms, once all of it is over
  canceling: boolean;
  steps: Step[];
}

interface Start {
  compute: string;
  pieces: Piece[];
  parameters: (sql: string) => Parameter[];
  limit: number; // rows of each statement
}

/** What a draft runs. It goes on while other pages are looked at. */
export class Runner {
  readonly run = new Value<Run | undefined>(undefined);
  #stop = new AbortController();

  /** Runs statements one after another, up to the first that fails or is canceled. */
  async start({ compute, pieces, parameters, limit }: Start) {
    const begun = Date.now();
    if (pieces.length === 0 || this.going) return;
    const stop = new AbortController();
    this.#stop = stop;
    const steps = pieces.map((piece): Step => ({ piece, state: "Waiting" }));
    this.run.set({ compute, begun, canceling: false, steps });
    let goes = true;
    for (const [at, { sql }] of pieces.entries()) {
      if (!goes) {
        this.#tell(at, { state: "Not run" });
        continue;
      }
      const since = Date.now();
      const over = (news: Partial<Step>) => this.#tell(at, { ...news, took: Date.now() - since });
      this.#tell(at, { state: "Pending" });
      try {
        const asked = { compute, sql, parameters: parameters(sql), limit };
        const answer = await answerOf(asked, stop.signal, (now) =>
          this.#tell(at, { state: now === "PENDING" ? "Pending" : "Running" }),
        );
        over(answer === undefined ? { state: "Canceled" } : { state: "Succeeded", answer });
        goes = answer !== undefined;
      } catch (error) {
        over({ state: "Failed", failure: words(error) });
        goes = false;
      }
      if (stop.signal.aborted) goes = false;
    }
    this.#change({ took: Date.now() - begun });
  }

  get going() {
    const run = this.run.get();
    return run !== undefined && run.took === undefined;
  }

  cancel() {
    if (!this.going) return;
    this.#stop.abort();
    this.#change({ canceling: true });
  }

  #change(news: Partial<Run>) {
    const run = this.run.get();
    if (run !== undefined) this.run.set({ ...run, ...news });
  }

  #tell(at: number, news: Partial<Step>) {
    const steps = this.run.get()?.steps ?? [];
    this.#change({ steps: steps.map((step, each) => (each === at ? { ...step, ...news } : step)) });
  }
}

const runners = new Map<string, Runner>();

/** What a user's draft runs. */
export function runnerOf(user: string, draft: number): Runner {
  const key = `${draft} ${user}`;
  const found = runners.get(key) ?? new Runner();
  runners.set(key, found);
  return found;
}

/** The draft is closed: what it runs ends. */
export function forget(user: string, draft: number) {
  const key = `${draft} ${user}`;
  runners.get(key)?.cancel();
  runners.delete(key);
}
