import { Group, SegmentedControl, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import type { Cluster } from "../api/client";
import { runtimesQuery, sparkVersionsOf } from "../api/queries";
import { accessOf, driverType, isOwned, nameOf, target } from "../clusters/facts";
import { PolicyLink, PoolLink } from "../clusters/links";
import type { May } from "../clusters/rights";
import { CopyButton } from "../kit/copy";
import { Scroller } from "../kit/scroller";
import { exactly } from "../lib/time";
import { type Read, readMinutes, readName, readNewTag, readSize, readTag } from "./changes";
import { asCli, asSdk, asTerraform } from "./code";
import { EDITABLE, InPlace } from "./inplace";
import type { Form } from "./search";
import type { TabProps } from "./tab";

const FORMS: { value: Form | "fields"; label: string }[] = [
  { value: "fields", label: "Fields" },
  { value: "json", label: "JSON" },
  { value: "sdk", label: "SDK" },
  { value: "cli", label: "CLI" },
  { value: "terraform", label: "Terraform" },
];

export default function Configuration({ cluster, may, search, change }: TabProps) {
  const form = search.as ?? "fields";
  const text = form === "fields" ? "" : written(cluster, form);
  return (
    <>
      <Group justify="space-between" gap="xs">
        <SegmentedControl
          size="xs"
          aria-label="Show the configuration as"
          data={FORMS}
          value={form}
          onChange={(as) => change({ as: as === "fields" ? undefined : (as as Form) })}
        />
        {text && <CopyButton text={text} />}
      </Group>
      {text ? (
        <Scroller className="code" label={`The configuration as ${form}`}>
          {text}
        </Scroller>
      ) : (
        <Fields cluster={cluster} edits={editable(cluster, may)} />
      )}
    </>
  );
}

/** Whether single values can be changed here. */
const editable = (cluster: Cluster, may: May) =>
  may("CAN_MANAGE") && !isOwned(cluster) && EDITABLE.has(cluster.state ?? "") && cluster.spec != null;

/** What was asked for: the request that makes the same cluster again. */
function written(cluster: Cluster, form: Form): string {
  const spec = (cluster.spec ?? {}) as Record<string, unknown>;
  if (form === "sdk") return asSdk(spec);
  if (form === "cli") return asCli(spec);
  return form === "terraform" ? asTerraform(spec) : JSON.stringify(spec, null, 2);
}

type Row = [name: string, value: ReactNode];

function Fields({ cluster, edits }: { cluster: Cluster; edits: boolean }) {
  const changeable = (label: string, initial: string, hint: string, read: Read, value: ReactNode) =>
    edits ? (
      <InPlace key={label} cluster={cluster} label={label} initial={initial} hint={hint} read={read}>
        {value}
      </InPlace>
    ) : (
      value
    );
  const runtimes = useQuery(runtimesQuery).data;
  const minutes = cluster.autotermination_minutes ?? 0;
  const cloud = cluster.aws_attributes ?? cluster.azure_attributes ?? cluster.gcp_attributes;
  const logs = cluster.cluster_log_conf;
  const delivered = cluster.cluster_log_status;
  const clients = cluster.workload_type?.clients;
  // A first start is told as a restart as well.
  const tags = (cluster.spec?.custom_tags ?? {}) as Record<string, string>;
  const restarted = cluster.last_restarted_time === cluster.start_time ? undefined : cluster.last_restarted_time;
  return (
    <div className="sections">
      <Section
        title="Compute"
        rows={[
          ["Name", changeable("Name", cluster.cluster_name ?? "", "A name of the cluster.", readName, nameOf(cluster))],
          ["Policy", cluster.policy_id ? <PolicyLink key="policy" id={cluster.policy_id} /> : "Unrestricted"],
          ["Access mode", accessOf(cluster)],
          ["Single user", cluster.single_user_name],
          ["Runtime", sparkVersionsOf(runtimes, cluster.spark_version)],
          ["Engine", cluster.runtime_engine],
          ["Driver type", driverType(cluster)],
          ["Worker type", cluster.node_type_id],
          [
            "Workers",
            cluster.is_single_node
              ? "None (single node)"
              : changeable("Workers", target(cluster), "A number, or a range such as 1-8.", readSize, target(cluster)),
          ],
          ["Autoscaling", cluster.autoscale ? "On" : "Off"],
          [
            "Terminates after",
            changeable(
              "Terminates after",
              String(minutes),
              "Minutes without activity, from 10 to 10000. 0: never.",
              readMinutes,
              minutes > 0 ? `${minutes} minutes of inactivity` : "Never",
            ),
          ],
          ["Pool", cluster.instance_pool_id && <PoolLink key="pool" id={cluster.instance_pool_id} />],
          [
            "Driver's pool",
            cluster.driver_instance_pool_id && <PoolLink key="driver" id={cluster.driver_instance_pool_id} />,
          ],
        ]}
      />
      <Section title="Spot and disks" rows={cloud ? flat(cloud as object) : []} />
      <Section
        title="Tags"
        rows={[
          ...Object.entries(cluster.custom_tags ?? {}).map(([key, value]): Row => {
            if (!(key in tags)) return [key, value]; // x_Creator is not what was sent
            return [key, changeable(`Tag ${key}`, value, "An empty value removes the tag.", readTag(tags, key), value)];
          }),
          ...(edits ? [["New tag", <NewTag key="new" cluster={cluster} tags={tags} />] satisfies Row] : []),
          ...entries(cluster.default_tags, "automatic"),
        ]}
      />
      <Section title="Spark configuration" rows={entries(cluster.spark_conf)} mono />
      <Section title="Environment variables" rows={entries(cluster.spark_env_vars)} mono />
      <Section
        title="Logging"
        rows={[
          ["Delivered to", logs?.dbfs?.destination ?? logs?.volumes?.destination ?? logs?.s3?.destination],
          ["Last delivery", delivered?.last_attempted ? exactly(delivered.last_attempted) : undefined],
          ["Delivery error", delivered?.last_exception],
        ]}
      />
      <Section
        title="Init scripts"
        rows={(cluster.init_scripts ?? []).map((each, at): Row => {
          const [[kind, place] = ["", {}]] = Object.entries(each).filter(([, value]) => value != null);
          return [`${at + 1}. ${kind}`, (place as { destination?: string }).destination];
        })}
      />
      <Section
        title="About"
        rows={[
          ["Creator", cluster.creator_user_name],
          ["Created by", cluster.cluster_source],
          ["Created", cluster.start_time ? exactly(cluster.start_time) : undefined],
          ["Last started", restarted ? exactly(restarted) : undefined],
          ["Not available to", closed(clients)],
        ]}
      />
    </div>
  );
}

function NewTag({ cluster, tags }: { cluster: Cluster; tags: Record<string, string> }) {
  return (
    <InPlace cluster={cluster} label="Add a tag" initial="" hint="key: value" read={readNewTag(tags)} adds>
      Add a tag
    </InPlace>
  );
}

function closed(clients: { notebooks?: boolean | null; jobs?: boolean | null } | null | undefined): string | undefined {
  const names = [clients?.notebooks === false && "notebooks", clients?.jobs === false && "jobs"].filter(Boolean);
  return names.length > 0 ? names.join(" and ") : undefined;
}

function entries(given: Record<string, string> | null | undefined, note?: string): Row[] {
  return Object.entries(given ?? {}).map(([name, value]) => [
    name,
    note ? (
      <>
        {value} <span className="soft">{note}</span>
      </>
    ) : (
      value
    ),
  ]);
}

const flat = (given: object): Row[] =>
  Object.entries(given)
    .filter(([, value]) => value !== null && typeof value !== "object")
    .map(([name, value]) => [name, String(value)]);

/** A section without content says so: nothing is hidden. */
function Section({ title, rows, mono = false }: { title: string; rows: Row[]; mono?: boolean }) {
  const shown = rows.filter(([, value]) => value !== undefined && value !== null && value !== "");
  return (
    <section aria-label={title}>
      <Title order={2} size="h6">
        {title}
      </Title>
      {shown.length === 0 ? (
        <Text size="sm" c="dimmed">
          Not set.
        </Text>
      ) : (
        <dl className={mono ? "rows mono" : "rows"}>
          {shown.map(([name, value], at) => (
            <div key={`${name}-${String(at)}`}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ))}
        </dl>
      )}
    </section>
  );
}
