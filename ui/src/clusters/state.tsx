import type { Cluster } from "../api/client";
import { failed } from "./facts";

type Look = "good" | "wait" | "off" | "bad";

function look(cluster: Cluster): Look {
  if (failed(cluster)) return "bad";
  if (cluster.state === "RUNNING") return "good";
  return cluster.state === "TERMINATED" ? "off" : "wait";
}

/** The state as a shape and a word: the colour alone says nothing. */
export function StateWord({ cluster }: { cluster: Cluster }) {
  return (
    <span className={`word ${look(cluster)}`} title={cluster.state_message || undefined}>
      {cluster.state}
    </span>
  );
}
