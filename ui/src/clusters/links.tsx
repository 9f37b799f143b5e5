import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { Cluster } from "../api/client";
import { policiesQuery, poolsQuery } from "../api/offers";
import { nameOf } from "./facts";

/** A pool by its name, with the way to its page; its id if the reader may not see it. */
export function PoolLink({ id }: { id: string }) {
  const pool = useQuery(poolsQuery).data?.find((each) => each.instance_pool_id === id);
  if (pool === undefined) return <>{id}</>;
  return (
    <Link to="/compute/pools/$id" params={{ id }} className="quiet">
      {pool.instance_pool_name}
    </Link>
  );
}

/** Likewise a policy. */
export function PolicyLink({ id }: { id: string }) {
  const policy = useQuery(policiesQuery).data?.find((each) => each.policy_id === id);
  if (policy === undefined) return <>{id}</>;
  return (
    <Link to="/compute/policies/$id" params={{ id }} className="quiet">
      {policy.name}
    </Link>
  );
}

/** The run of a job cluster. */
export function RunLink({ id }: { id: string }) {
  return (
    <Link to="/jobs/runs/$id" params={{ id }} className="quiet">
      {id}
    </Link>
  );
}

/** The SQL warehouse that a cluster is: it is changed there. */
export function WarehouseLink({ cluster }: { cluster: Cluster }) {
  return (
    <Link to="/compute/warehouses/$id" params={{ id: cluster.cluster_id }} className="quiet">
      {nameOf(cluster)}
    </Link>
  );
}
