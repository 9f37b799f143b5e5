import { ApiError, type Cluster, words } from "../api/client";
import { progress } from "../kit/toasts";
import { figure } from "../lib/sizes";
import { inTurns } from "../lib/turns";

/** From so many clusters on, their number has to be typed, and it is shown how far it is. */
export const MANY = 10;
const AT_ONCE = 4;
const EVERY_MS = 1000; // it is read aloud, too
const WAITS_MS = [1000, 2000, 4000, 8000, 16_000];

export interface Outcome {
  done: number;
  refused: { cluster: Cluster; why: string }[];
  left: number; // that were not begun
}

interface Action {
  label: string;
  call: (id: string) => Promise<unknown>;
}

/** Does something to each of the clusters, a few at a time. The reader can stop before all have had their turn. */
export async function actOnAll(clusters: Cluster[], { label, call }: Action): Promise<Outcome> {
  const stop = new AbortController();
  const refused: Outcome["refused"] = [];
  const said = (done: number) => `${label}: ${figure(done)} of ${figure(clusters.length)} clusters`;
  const shown =
    clusters.length < MANY ? undefined : progress(said(0), { label: "Skip the rest", act: () => stop.abort() });
  let done = 0;
  let told = Date.now();
  const begun = await inTurns(
    clusters,
    AT_ONCE,
    async (cluster) => {
      try {
        await patiently(() => call(cluster.cluster_id));
        done += 1;
      } catch (error) {
        refused.push({ cluster, why: words(error) });
      }
      if (Date.now() - told < EVERY_MS) return;
      told = Date.now();
      shown?.update(said(done));
    },
    stop.signal,
  );
  shown?.end();
  return { done, refused, left: clusters.length - begun };
}

/** Calls again where the server only asks for time. */
export async function patiently<T>(call: () => Promise<T>, waits: readonly number[] = WAITS_MS): Promise<T> {
  for (const wait of waits) {
    try {
      return await call();
    } catch (error) {
      if (!(error instanceof ApiError && (error.status === 429 || error.status === 503))) throw error;
      await new Promise((done) => setTimeout(done, wait));
    }
  }
  return call();
}
