import { Tooltip } from "@mantine/core";
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
  const kind = look(cluster);
  const word = <span className={`word ${kind}`}>{cluster.state}</span>;
  return cluster.state_message ? (
    <Tooltip label={cluster.state_message} multiline maw={420}>
      {word}
    </Tooltip>
  ) : (
    word
  );
}
