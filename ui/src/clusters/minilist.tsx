import { Text } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import type { Cluster } from "../api/client";
import { PlainTable } from "../kit/plaintable";
import { driverType, nameOf, running, target } from "./facts";
import { StateWord } from "./state";

/** Some clusters, with what matters where they are not the subject. */
export function MiniList({ clusters, none }: { clusters: Cluster[]; none: string }) {
  if (clusters.length === 0) return <Text c="dimmed">{none}</Text>;
  return (
    <PlainTable heads={["Name", "State", "Driver", "Workers", "Creator"]}>
      {clusters.map((each) => (
        <tr key={each.cluster_id}>
          <td data-label="Name" className="name-id">
            <Link to="/compute/clusters/$id" params={{ id: each.cluster_id }}>
              {nameOf(each)}
            </Link>
          </td>
          <td data-label="State">
            <StateWord cluster={each} />
          </td>
          <td data-label="Driver">{driverType(each)}</td>
          <td data-label="Workers">
            {running(each)} / {target(each)}
          </td>
          <td data-label="Creator">{each.creator_user_name}</td>
        </tr>
      ))}
    </PlainTable>
  );
}
