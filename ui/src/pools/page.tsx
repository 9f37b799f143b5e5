import "../cluster/cluster.css";
import "./pools.css";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { Permissions } from "../access/permissions";
import { useLevel } from "../access/rights";
import { connection, POLL_MS } from "../api/live";
import { hasPoolDetails, type Pool, type PoolDetails, poolInstancesQuery, poolQuery } from "../api/offers";
import { clustersQuery, pricesQuery, runtimesQuery, sparkVersionsOf } from "../api/queries";
import { money, nameOf } from "../clusters/facts";
import { MiniList } from "../clusters/minilist";
import { FactList } from "../kit/factlist";
import { ObjectActions, ObjectHead, ObjectPage } from "../kit/objectpage";
import { type ObjectTab, ObjectTabs } from "../kit/objecttabs";
import { Reading } from "../kit/reading";
import { exactly } from "../lib/time";
import { useValue } from "../lib/value";
import { useDeletePool, usesPool } from "./actions";
import { minutes, poolTags, runtimeOf, sizeOf, troubleOf } from "./facts";
import { Picture } from "./picture";
import type { PoolTab } from "./search";

const LEVELS = ["CAN_ATTACH_TO", "CAN_MANAGE"] as const;

export function PoolPage() {
  const { id } = useParams({ from: "/compute/pools/$id" });
  return <OfPool key={id} id={id} />;
}

function OfPool({ id }: { id: string }) {
  const { tab } = useSearch({ from: "/compute/pools/$id" });
  const navigate = useNavigate({ from: "/compute/pools/$id" });
  const live = useValue(connection) === "live";
  const refetchInterval = live ? false : POLL_MS;
  const asked = useQuery({ ...poolQuery(id), refetchInterval });
  const details = useQuery({ ...poolInstancesQuery(id), refetchInterval });
  const clusters = useQuery({ ...clustersQuery, refetchInterval });
  const may = useLevel({ of: "instance-pools", id }, LEVELS);
  const using = (clusters.data ?? []).filter(usesPool(id));
  const named = (cluster: string) => {
    const found = clusters.data?.find((each) => each.cluster_id === cluster);
    return found && nameOf(found);
  };
  const open = (next: PoolTab | undefined) => void navigate({ search: next === undefined ? {} : { tab: next } });
  const manage = may("CAN_MANAGE");
  const instances = (pool: Pool, gone: boolean) =>
    details.data ? (
      <Picture pool={pool} instances={gone ? [] : (details.data.instances ?? [])} nameOf={named} />
    ) : (
      <Reading query={details} what="Reading the instances" rows={3} />
    );
  const tabs = (pool: Pool, gone: boolean): ObjectTab<PoolTab>[] => [
    ...(hasPoolDetails() ? [{ tab: "instances" as const, label: "Instances", content: instances(pool, gone) }] : []),
    {
      tab: "clusters",
      label: "Clusters",
      content: <MiniList clusters={using} none="No cluster that you can see uses this pool." />,
    },
    {
      tab: "permissions",
      label: "Permissions",
      content: (
        <Permissions
          on={{ of: "instance-pools", id }}
          owner={details.data?.creator_user_name}
          manage={!gone && manage}
        />
      ),
    },
  ];
  return (
    <ObjectPage
      noun="pool"
      query={asked}
      title={asked.data?.instance_pool_name ?? id}
      back={{ tab: "pools", label: "Pools" }}
    >
      {(pool, gone) => (
        <>
          <Header pool={pool} details={details.data ?? undefined} manage={!gone && manage} gone={gone} />
          {troubleOf(pool).length > 0 && (
            <div className="gone" role="alert">
              <b>The pool cannot get all of its instances.</b> It retries automatically, at growing intervals. Edit the
              pool to retry at once.
              {troubleOf(pool).map((each) => (
                <div key={each.instance_id + each.message}>
                  {each.instance_id && <span className="mono">{each.instance_id} </span>}
                  {each.message}
                </div>
              ))}
            </div>
          )}
          <ObjectTabs label="About the pool" tabs={tabs(pool, gone)} chosen={tab} open={open} />
        </>
      )}
    </ObjectPage>
  );
}

interface HeaderProps {
  pool: Pool;
  details: PoolDetails | undefined;
  manage: boolean;
  gone: boolean;
}

function Header({ pool, details, manage, gone }: HeaderProps) {
  const id = pool.instance_pool_id;
  const navigate = useNavigate();
  const { busy, remove } = useDeletePool();
  const why = manage ? undefined : "You need CAN_MANAGE on this pool";
  const actions = !gone && (
    <ObjectActions
      why={why}
      create={{ pool: id }}
      edit={() => void navigate({ to: "/compute/pools/$id/edit", params: { id } })}
      remove={() => remove(id, pool.instance_pool_name)}
      removing={busy !== ""}
      tab="pools"
    />
  );
  return (
    <ObjectHead name={pool.instance_pool_name} topic="pools" actions={actions}>
      <Facts pool={pool} details={details} />
    </ObjectHead>
  );
}

function Facts({ pool, details }: { pool: Pool; details: PoolDetails | undefined }) {
  const runtimes = useQuery(runtimesQuery).data;
  const prices = useQuery(pricesQuery).data;
  const price = prices?.perHour.get(pool.node_type_id);
  const facts: [string, string | undefined][] = [
    ["Node type", pool.node_type_id],
    ["Preloaded", sparkVersionsOf(runtimes, runtimeOf(pool)) || "no runtime"],
    ["Min idle", String(pool.min_idle_instances ?? 0)],
    ["Max", pool.max_capacity == null ? "no limit" : String(pool.max_capacity)],
    ["Terminate idle instances after", minutes(pool.idle_instance_autotermination_minutes)],
    ["Spend per hour", price ? money(price * sizeOf(pool), prices?.currency ?? "USD") : undefined],
    ["Tags", poolTags(pool).join(", ")],
    ["Creator", details?.creator_user_name],
    ["Created", details && exactly(details.created_at)],
  ];
  return <FactList facts={facts} id={pool.instance_pool_id} />;
}
